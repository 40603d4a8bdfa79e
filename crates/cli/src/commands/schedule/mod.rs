//! `vmnoise schedule`: computes the least CPU time left in any window, and whether tasks meet their
//! deadlines.

mod latency;
mod supplies;
mod tasks;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use vmnoise_console::say;
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_engine::files::refuse_among_tables;
use vmnoise_predict::schedule::{DeadlineVerdict, PeriodicTask, TaskSet, TaskVerdict, judge};
use vmnoise_render::format::Format;
use vmnoise_render::recorded::ReadRecording;
use vmnoise_render::schedule::{CpuSupply, ScheduleResult, csv, document, text};

use self::supplies::Supplies;
use self::tasks::Described;
use crate::args::ScheduleArguments;

/// Judges the tasks and prints the result. The status says whether all tasks meet their deadlines.
pub fn run(arguments: &ScheduleArguments) -> Result<ExitStatus> {
    if let Some(table) = &arguments.csv {
        refuse_to_overwrite(table, arguments)?;
    }
    let described = arguments.tasks.as_deref().map(tasks::read).transpose()?;
    let supplies = Supplies::read(arguments)?;
    if let Some(described) = &described {
        refuse_other_kernels(described, &supplies)?;
        refuse_other_cpus(described, &supplies)?;
    }
    let set = described.as_ref().map(|it| &it.set);
    let cpus = supplies.cpus(&arguments.without);
    let cpus = cpus.into_iter().map(|cpu| match set {
        Some(set) => judged(cpu, set),
        None => cpu,
    });
    // Text output has no rows, and computing them for many gaps takes long.
    let draws = arguments.csv.is_some() || matches!(arguments.format, Format::Json);
    let cpus = cpus.map(|cpu| match draws {
        true => cpu.with_rows(),
        false => cpu,
    });
    let cpus: Vec<CpuSupply<'_>> = cpus.collect();
    let scheduled = ScheduleResult {
        cpus,
        set,
        notes: described.as_ref().map_or(&[], |it| &it.notes),
        without: &arguments.without,
    };
    let printed = match arguments.format {
        Format::Text => text::render(&scheduled).into_bytes(),
        Format::Json => document::render(&scheduled)?,
    };
    vmnoise_render::write(&printed)?;
    if let Some(path) = &arguments.csv {
        let name = say::name_of(path);
        fs::write(path, csv::render(&scheduled))
            .with_context(|| format!("cannot write the table {name}"))?;
    }
    Ok(status(&scheduled))
}

/// Judges the tasks on a CPU. Late timers may block each task once, and may bring two jobs closer
/// together.
fn judged<'a>(cpu: CpuSupply<'a>, set: &TaskSet) -> CpuSupply<'a> {
    let late_ns = cpu.blocking_ns.unwrap_or(0);
    let tasks: Vec<PeriodicTask> = set.tasks.iter().map(|it| it.late_by(late_ns)).collect();
    let blind_spots = |question| cpu.blind_spots(question);
    let judged = judge(set.policy, &tasks, &cpu.supply, late_ns, &blind_spots);
    CpuSupply { judged, ..cpu }
}

/// Refuses models from another kernel, because tasks may need more or less time there.
fn refuse_other_kernels(described: &Described, supplies: &Supplies) -> Result<()> {
    let Some(observed_under) = &described.observed_under else {
        return Ok(());
    };
    let kernel = |it: &&ReadRecording| it.origin.kernel != *observed_under;
    match supplies.recorded().iter().find(kernel) {
        Some(recorded) => Err(usage(format!(
            "the tasks were observed under Linux {observed_under}, and {} is of {}, where they may need other times: \
             extract the models on the recorded machine",
            recorded.file, recorded.origin.kernel
        ))),
        None => Ok(()),
    }
}

/// Refuses a task that may run on none of the recorded CPUs.
fn refuse_other_cpus(described: &Described, supplies: &Supplies) -> Result<()> {
    for (name, may_run_on) in &described.bound_to {
        let is_recorded = |cpu: &u32| supplies.of_cpus().contains(cpu);
        if !may_run_on.iter().any(is_recorded) {
            let listed: Vec<String> = may_run_on.iter().map(u32::to_string).collect();
            return Err(usage(format!(
                "{name} may run only on CPU {}, and the recordings have no such CPU: record there",
                listed.join(",")
            )));
        }
    }
    Ok(())
}

/// Returns the status for the worst verdict of all tasks on all CPUs.
fn status(scheduled: &ScheduleResult<'_>) -> ExitStatus {
    let judged = scheduled.cpus.iter().flat_map(|cpu| &cpu.judged);
    let verdicts: Vec<DeadlineVerdict> = judged.map(|it: &TaskVerdict| it.verdict).collect();
    let misses = |it: &DeadlineVerdict| {
        matches!(
            it,
            DeadlineVerdict::MayMiss | DeadlineVerdict::Overloads { .. }
        )
    };
    if verdicts.iter().any(misses) {
        ExitStatus::Limit
    } else if verdicts.iter().any(|it| *it != DeadlineVerdict::Holds) {
        ExitStatus::MachineCannot
    } else {
        ExitStatus::Ok
    }
}

/// Refuses to overwrite an input file with the table.
fn refuse_to_overwrite(table: &Path, arguments: &ScheduleArguments) -> Result<()> {
    refuse_among_tables(table, &arguments.recordings)?;
    let Ok(there) = fs::canonicalize(table) else {
        return Ok(());
    };
    let read = arguments.recordings.iter().chain(&arguments.tasks);
    let is_read = |it: &PathBuf| fs::canonicalize(it).is_ok_and(|it| it == there);
    match read.into_iter().any(is_read) {
        true => Err(usage(format!(
            "--csv {} would overwrite an input file: name another file",
            say::name_of(table)
        ))),
        false => Ok(()),
    }
}

/// Returns a usage error.
fn usage(why: String) -> anyhow::Error {
    UsageError(why).into()
}
