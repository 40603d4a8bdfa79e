//! `vmnoise audit`: the settings of this machine, by what they took of a recording.

use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_audit::{Audit, Evidence, Machine, all};
use vmnoise_events::{HostFacts, RunFacts, Workload};
use vmnoise_explain::Explainer;
use vmnoise_tracer::host::{Host, cpu_list};

use super::replay::Recording;
use crate::args::AuditArguments;
use crate::output::audit::{Audited, print, scripts};
use crate::run::files;
use crate::say;
use crate::status::{Status, UsageError};

/// Looks, prints, and changes nothing.
pub fn run(arguments: &AuditArguments) -> Result<Status> {
    let host = Host::here();
    let recorded = match &arguments.recording {
        Some(path) => Some(read(path, &host)?),
        None => None,
    };
    let cpus = cpus(arguments, &host, recorded.as_ref().map(|(facts, _)| facts))?;
    let machine = Machine::under("/", &cpus).context("which CPUs are online")?;
    let evidence = recorded.as_ref().map(|(_, evidence)| evidence);
    let audited = Audited {
        facts: host.facts()?,
        cpus,
        noise_ns: evidence.map(|it| it.noise_ns),
        lost_events: evidence.map_or(0, |it| it.lost_events),
        audit: Audit::new(all()?, &machine, evidence),
    };
    print(arguments.format, &audited)?;
    if let Some(folder) = &arguments.script {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", say::name_of(folder)))?;
        for (name, script) in scripts(&audited) {
            let path = folder.join(name);
            files::write_whole(&path, script.as_bytes())
                .with_context(|| format!("cannot write {}", say::name_of(&path)))?;
        }
    }
    Ok(Status::Ok)
}

/// What a recording of this machine says.
fn read(path: &Path, host: &Host) -> Result<(RunFacts, Evidence)> {
    let mut recording = Recording::open(path)?;
    let facts = recording.facts.clone();
    if matches!(facts.workload, Workload::Exits | Workload::Timerlat) {
        return Err(UsageError(format!(
            "{} is of `vmnoise {}`, which has no gaps: name a recording of `microvm` or `osnoise`",
            say::name_of(path),
            facts.workload.command()
        ))
        .into());
    }
    // The settings are of the machine that this runs on, as it is now.
    let here = host.facts()?;
    let (its, ours) = (&facts.host, &here);
    if (&its.name, &its.kernel) != (&ours.name, &ours.kernel) {
        let of = |facts: &HostFacts| {
            format!(
                "{} with Linux {}",
                facts.name.as_deref().unwrap_or("-"),
                facts.kernel
            )
        };
        return Err(UsageError(format!(
            "{} is of {}, and this is {}: audit a machine by a recording of its own",
            say::name_of(path),
            of(its),
            of(ours)
        ))
        .into());
    }
    let mut explainer = Explainer::new(&facts);
    recording.each(|event| {
        explainer.push(event, &mut |_| {});
        Ok(())
    })?;
    recording.report_ending()?;
    explainer.run_out(&mut |_| {});
    let evidence = Evidence::of(&explainer.finish(), facts.options.priority);
    Ok((facts, evidence))
}

/// The CPUs in question.
fn cpus(arguments: &AuditArguments, host: &Host, recorded: Option<&RunFacts>) -> Result<Vec<u32>> {
    if let Some(list) = &arguments.cpus {
        let cpus = cpu_list::parse(list).map_err(|error| UsageError(error.to_string()))?;
        let online = host.online_cpus()?;
        return match cpus.iter().find(|cpu| !online.contains(cpu)) {
            Some(cpu) => {
                Err(UsageError(format!("CPU {cpu} is not online; -c takes those that are")).into())
            }
            None => Ok(cpus),
        };
    }
    if let Some(facts) = recorded.filter(|facts| !facts.options.cpus.is_empty()) {
        return Ok(facts.options.cpus.clone());
    }
    let isolated = host.isolated_cpus();
    match isolated.is_empty() {
        true => Ok(host.online_cpus()?),
        false => Ok(isolated),
    }
}
