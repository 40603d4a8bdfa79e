//! `vmnoise audit`: settings of a machine that make noise, ranked by the time they took.

mod measured;
mod pair;
mod subject;
mod whom;

use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_audit::{NoiseEvidence, all};
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_console::{rights, say};
use vmnoise_events::{MeasuringCommand, RunFacts};
use vmnoise_explain::Explainer;
use vmnoise_export::write_whole;
use vmnoise_host::{Host, cpu_list};
use vmnoise_render::audit::{AuditedMachine, print, print_pair, scripts};
use vmnoise_rights::AttachedWork;

use self::subject::Subject;
use self::whom::Whom;
use super::replay::ReplayedRecording;
use crate::args::AuditArguments;

/// Audits, prints the result, and writes the scripts. Changes no setting.
pub fn run(arguments: &AuditArguments) -> Result<ExitStatus> {
    let (whom, recordings) = Whom::of(&arguments.words, &Host::here())?;
    let usage = |why: &str| Err(UsageError(why.into()).into());
    let recording = match (recordings, &whom) {
        ([], _) => None,
        _ if arguments.measure.is_some() => {
            return usage("--measure takes the place of a recording: leave one of them out");
        }
        ([recording], _) => Some(recording.as_path()),
        ([guest, host], Whom::Any) => return both(arguments, guest, host),
        ([_, _], _) => {
            return usage(
                "with a guest's and its host's recordings, vmnoise audits both sides: leave out `host`, `guest` or `vm NAME`",
            );
        }
        _ => return usage("name one recording, or a guest's and its host's"),
    };
    let audited = one(arguments, &whom, recording)?;
    print(arguments.format, &audited)?;
    if let Some(folder) = &arguments.script {
        write_scripts(folder, &audited)?;
    }
    Ok(ExitStatus::Ok)
}

/// Audits a guest and its host together.
fn both(arguments: &AuditArguments, guest: &Path, host: &Path) -> Result<ExitStatus> {
    if arguments.cpus.is_some() {
        let why =
            "-c takes the CPUs of one machine: leave -c out, because each recording names its CPUs";
        return Err(UsageError(why.into()).into());
    }
    let (audited, status) = pair::audit(guest, host)?;
    print_pair(arguments.format, &audited)?;
    if let Some(folder) = &arguments.script {
        write_scripts(&folder.join("guest"), &audited.guest)?;
        write_scripts(&folder.join("host"), &audited.host)?;
    }
    Ok(status)
}

/// Audits one machine.
fn one(
    arguments: &AuditArguments,
    whom: &Whom,
    recording: Option<&Path>,
) -> Result<AuditedMachine> {
    let host = Host::here();
    let (subject, recorded) = match (recording, arguments.measure) {
        (Some(path), _) => {
            let recording = open(path)?;
            let subject = Subject::of(path, &recording.facts, &host)?;
            (subject, Some(read(recording)?))
        }
        (None, measured_ns) => {
            let subject = Subject::here(host.facts()?)?;
            let measure = |duration_ns| {
                let cpus = cpus(arguments, whom, &subject, &host, None)?;
                let path = measured::measure(&cpu_list::format(&cpus), duration_ns)?;
                // From here on, keep only the rights that an audit without a measurement keeps.
                vmnoise_rights::begin(None)?;
                rights::keep(&[AttachedWork::SaveFiles, AttachedWork::SeeVms])?;
                read(open(&path)?)
            };
            let recorded = measured_ns.map(measure).transpose()?;
            (subject, recorded)
        }
    };
    if whom.vm().is_some() && subject.is_elsewhere() {
        let why = "`vm` needs a recording of this machine since its last boot, and this recording is of another machine or boot: leave `vm` out";
        return Err(UsageError(why.into()).into());
    }
    let cpus = cpus(
        arguments,
        whom,
        &subject,
        &host,
        recorded.as_ref().map(|(facts, _)| facts),
    )?;
    let (mut looked, of) = subject.about(cpus);
    if let Some(vm) = whom.vm() {
        looked = looked.of_vm(vm.pid);
    }
    let mut rules = all()?;
    rules.retain(|rule| whom.asks(rule));
    let evidence = recorded.as_ref().map(|(_, evidence)| evidence);
    Ok(AuditedMachine {
        of,
        noise_ns: evidence.map(|it| it.noise_ns),
        lost_events: evidence.map_or(0, |it| it.lost_events),
        coverage: evidence.map(|it| it.coverage.clone()),
        audit: looked.audit(rules, evidence),
    })
}

fn write_scripts(folder: &Path, audited: &AuditedMachine) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make {}", say::name_of(folder)))?;
    for (name, script) in scripts(audited) {
        let path = folder.join(name);
        write_whole(&path, script.as_bytes())
            .with_context(|| format!("cannot write {}", say::name_of(&path)))?;
    }
    Ok(())
}

/// Opens a recording that has gaps.
fn open(path: &Path) -> Result<ReplayedRecording<'_>> {
    let recording = ReplayedRecording::open(path)?;
    match recording.facts.workload {
        workload @ (MeasuringCommand::Exits | MeasuringCommand::Timerlat) => Err(UsageError(format!(
            "{} is of `vmnoise {}`, which has no gaps: name a recording of `microvm` or `osnoise`",
            say::name_of(path),
            workload.command()
        ))
        .into()),
        _ => Ok(recording),
    }
}

/// Reads the facts and the evidence of a recording.
fn read(mut recording: ReplayedRecording<'_>) -> Result<(RunFacts, NoiseEvidence)> {
    let facts = recording.facts.clone();
    let mut explainer = Explainer::new(&facts);
    recording.each(|event| {
        explainer.push(event, &mut |_| {});
        Ok(())
    })?;
    recording.report_ending()?;
    explainer.run_out(&mut |_| {});
    let evidence = NoiseEvidence::of(&explainer.finish(), facts.options.priority);
    Ok((facts, evidence))
}

/// Returns the CPUs to audit.
fn cpus(
    arguments: &AuditArguments,
    whom: &Whom,
    subject: &Subject,
    host: &Host,
    recorded: Option<&RunFacts>,
) -> Result<Vec<u32>> {
    if let Some(list) = &arguments.cpus {
        return subject.cpus(list);
    }
    if let Some(facts) = recorded.filter(|facts| !facts.options.cpus.is_empty()) {
        return Ok(facts.options.cpus.clone());
    }
    if let Some(vm) = whom.vm() {
        let lists = vm.vcpus.iter().map(|vcpu| vcpu.cpus.as_str());
        // An affinity may include CPUs that are not online.
        let mut cpus = cpu_list::parse(&lists.collect::<Vec<_>>().join(","))?;
        cpus.retain(|cpu| subject.online().contains(cpu));
        return Ok(cpus);
    }
    let mut isolated = host.isolated_cpus();
    isolated.extend(subject.isolated());
    isolated.sort_unstable();
    isolated.dedup();
    Ok(match isolated.is_empty() {
        true => subject.online().to_vec(),
        false => isolated,
    })
}
