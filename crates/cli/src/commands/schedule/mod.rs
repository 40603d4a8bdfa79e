//! `vmnoise schedule`: what a CPU left to its tasks at least, and whether they keep their deadlines.

mod latency;
mod supplies;
mod tasks;

use std::fs;

use anyhow::{Context, Result};
use vmnoise_predict::schedule::{Judged, TaskSet, Verdict, judge};

use self::supplies::Supplies;
use self::tasks::Described;
use crate::args::ScheduleArguments;
use crate::output;
use crate::output::format::Format;
use crate::output::recorded::Recorded;
use crate::output::schedule::{CpuSupply, Scheduled, csv, document, text};
use crate::say;
use crate::status::{Status, UsageError};

/// Measures, judges, prints, and says whether all tasks hold.
pub fn run(arguments: &ScheduleArguments) -> Result<Status> {
    let described = arguments.tasks.as_deref().map(tasks::read).transpose()?;
    let supplies = Supplies::read(arguments)?;
    if let Some(described) = &described {
        refuse_other_kernels(described, &supplies)?;
    }
    let set = described.as_ref().map(|it| &it.set);
    let cpus = supplies.cpus(&arguments.without);
    let cpus: Vec<CpuSupply<'_>> = cpus
        .into_iter()
        .map(|cpu| match set {
            Some(set) => judged(cpu, set),
            None => cpu,
        })
        .collect();
    let scheduled = Scheduled {
        cpus,
        set,
        notes: described.as_ref().map_or(&[], |it| &it.notes),
        without: &arguments.without,
    };
    let printed = match arguments.format {
        Format::Text => text::render(&scheduled).into_bytes(),
        Format::Json => document::render(&scheduled)?,
    };
    output::write(&printed)?;
    if let Some(path) = &arguments.csv {
        let name = say::name_of(path);
        fs::write(path, csv::render(&scheduled))
            .with_context(|| format!("cannot write the table {name}"))?;
    }
    Ok(status(&scheduled))
}

fn judged<'a>(cpu: CpuSupply<'a>, set: &TaskSet) -> CpuSupply<'a> {
    let judged = judge(
        set.policy,
        &set.tasks,
        &cpu.supply,
        cpu.blocking_ns.unwrap_or(0),
        cpu.lost_gaps > 0 || !cpu.is_complete,
    );
    CpuSupply { judged, ..cpu }
}

/// Models that were extracted on another kernel say what tasks need there.
fn refuse_other_kernels(described: &Described, supplies: &Supplies) -> Result<()> {
    let Some(observed_under) = &described.observed_under else {
        return Ok(());
    };
    let kernel = |it: &&Recorded| it.facts.host.kernel != *observed_under;
    match supplies.recorded().iter().find(kernel) {
        Some(recorded) => Err(usage(format!(
            "the tasks were observed under Linux {observed_under}, and {} is of {}: what they need there is not known; \
             extract the models on the recorded machine",
            recorded.file, recorded.facts.host.kernel
        ))),
        None => Ok(()),
    }
}

/// The worst of all tasks on all CPUs.
fn status(scheduled: &Scheduled<'_>) -> Status {
    let judged = scheduled.cpus.iter().flat_map(|cpu| &cpu.judged);
    let verdicts: Vec<Verdict> = judged.map(|it: &Judged| it.verdict).collect();
    let misses = |it: &Verdict| matches!(it, Verdict::MayMiss | Verdict::Overloads { .. });
    if verdicts.iter().any(misses) {
        Status::Limit
    } else if verdicts.iter().any(|it| *it != Verdict::Holds) {
        Status::MachineCannot
    } else {
        Status::Ok
    }
}

/// An option that cannot be meant.
fn usage(why: String) -> anyhow::Error {
    UsageError(why).into()
}
