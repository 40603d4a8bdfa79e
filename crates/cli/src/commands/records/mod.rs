//! Recordings and data sets of gaps as predictions take them: of each CPU when it was taken away, and by whom.

mod data_set;
mod recording;
mod together;

use std::path::{Path, PathBuf};

use anyhow::Result;
use vmnoise_events::{RunFacts, Workload};

pub use self::together::refuse_two_at_once;
use crate::output::recorded::{Recorded, RecordedCpu};
use crate::progress;
use crate::say;
use crate::status::UsageError;

/// No more of a span than this may have gone by unseen: what was taken then is in no gap.
const UNSEEN_AT_MOST: f64 = 0.05;

/// Reads each of these, recordings and folders of data sets, for what was taken from CPUs: one after the other, and
/// those of a data set by host.
///
/// # Errors
/// If one cannot be read, is of a run that did not look at its CPUs all the time, or is there twice. Of a data set such runs are left
/// out, unless none is left.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Recorded>> {
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

/// Refuses runs that tell of no gaps, and such that look but now and then.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn refuse_gapless(path: &Path, facts: &RunFacts) -> Result<()> {
    refuse_run(&say::name_of(path), facts.workload, facts.options.pauses())
}

fn refuse_run(name: &str, workload: Workload, pauses: bool) -> Result<()> {
    let why = match workload {
        Workload::Exits | Workload::Timerlat => format!(
            "is of `vmnoise {}`, which has no gaps: record with `vmnoise osnoise` or `microvm`",
            workload.command()
        ),
        _ if pauses => {
            "is of a run that paused in each period, and what was taken then is not in it: record \
             without `--runtime`"
                .into()
        }
        _ => return Ok(()),
    };
    Err(UsageError(format!("{name} {why}")).into())
}

fn refuse_unseen(recorded: &Recorded) -> Result<()> {
    let file = &recorded.file;
    if recorded.cpus.is_empty() {
        return Err(UsageError(format!(
            "{file} does not say how long any CPU was looked at: record for longer"
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
                "{file}: for {:.1} % of its time nobody looked at CPU {}, and what was taken then is \
                 in no gap: record a workload that never sleeps, on a quieter machine",
                100.0 * unseen,
                record.cpu
            ))
            .into());
        }
    }
    Ok(())
}
