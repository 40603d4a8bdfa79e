//! How late timers were, as `timerlat` recorded it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use vmnoise_explain::Explainer;

use super::usage;
use crate::commands::replay::Recording;
use crate::say;

/// What a recording has of them.
pub(super) struct Latencies {
    /// The latest wake-up of each CPU, until user space; nanoseconds.
    pub(super) latest_ns: BTreeMap<u32, u64>,
    /// Whether the run ended in order, and nothing of it was lost.
    pub(super) is_whole: bool,
}

/// Reads one.
pub(super) fn read(path: &Path) -> Result<Latencies> {
    let mut recording = Recording::open(path)?;
    let mut explainer = Explainer::new(&recording.facts);
    recording.each(|event| {
        explainer.push(event, &mut |_| {});
        Ok(())
    })?;
    explainer.run_out(&mut |_| {});
    recording.report_ending()?;
    let summary = explainer.finish();
    let cpus = summary.wakeups.iter().flat_map(|it| &it.cpus);
    let latest = cpus.filter_map(|cpu| Some((cpu.cpu, cpu.user.as_ref()?.max_ns)));
    let latest_ns: BTreeMap<u32, u64> = latest.collect();
    match latest_ns.is_empty() {
        true => Err(usage(format!(
            "{} has no wake-up: record for longer",
            say::name_of(path)
        ))),
        false => Ok(Latencies {
            latest_ns,
            is_whole: summary.complete
                && summary.tsc_went_back_at_ns.is_none()
                && summary.losses.of_gaps() == 0,
        }),
    }
}
