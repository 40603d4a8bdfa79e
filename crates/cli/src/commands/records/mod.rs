//! Reads recordings and data sets of gaps as input for predictions: when each CPU was taken away,
//! and by whom.

mod data_set;
mod recording;
mod together;

use std::path::{Path, PathBuf};

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_events::{MeasuringCommand, RunFacts};
use vmnoise_render::recorded::{ReadRecording, RecordedCpu};

pub use self::together::refuse_two_at_once;
use crate::progress;

/// Largest fraction of a run in which a CPU may be unobserved. Time taken while a CPU is unobserved
/// is in no gap.
const UNSEEN_AT_MOST: f64 = 0.05;

/// Reads recordings and folders of data sets, one after the other. Combines the runs of a data set
/// that measured one host at the same time.
///
/// # Errors
/// If one cannot be read, did not measure its CPUs all the time, or is named twice. In a data set,
/// runs that did not measure all the time are left out. This is an error only if no run is left.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<ReadRecording>> {
    for path in paths.iter().filter(|path| !path.is_dir()) {
        progress::expect(path, 1);
    }
    let mut all = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => all.extend(data_set::read(path)?),
            false => all.push(recording::read(path)?),
        }
    }
    together::refuse_twice_the_same(&all)?;
    Ok(all)
}

/// Refuses runs without gaps, and runs that paused.
///
/// # Errors
/// A sentence that says what is wrong, and what to do.
pub fn refuse_gapless(path: &Path, facts: &RunFacts) -> Result<()> {
    refuse_run(&say::name_of(path), facts.workload, facts.options.pauses())
}

fn refuse_run(name: &str, workload: MeasuringCommand, pauses: bool) -> Result<()> {
    let why = match workload {
        MeasuringCommand::Exits | MeasuringCommand::Timerlat => format!(
            "is of `vmnoise {}`, which has no gaps: record with `vmnoise osnoise` or `microvm`",
            workload.command()
        ),
        _ if pauses => {
            "is of a run that paused in each period, so the time taken then is missing: record without \
             `--runtime`"
                .into()
        }
        _ => return Ok(()),
    };
    Err(UsageError(format!("{name} {why}")).into())
}

fn refuse_unseen(recorded: &ReadRecording) -> Result<()> {
    let file = &recorded.file;
    if recorded.cpus.is_empty() {
        return Err(UsageError(format!(
            "{file} does not say how long any CPU was measured: record for longer"
        ))
        .into());
    }
    for RecordedCpu {
        record, unseen_ns, ..
    } in &recorded.cpus
    {
        let unseen = *unseen_ns as f64 / record.span_ns().max(1) as f64;
        if unseen > UNSEEN_AT_MOST {
            return Err(UsageError(format!(
                "{file}: for {:.1} % of the run CPU {} was not observed, and time taken then is in no gap: \
                 record a workload that never sleeps, on a quieter machine",
                100.0 * unseen,
                record.cpu
            ))
            .into());
        }
    }
    Ok(())
}
