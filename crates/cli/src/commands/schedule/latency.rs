//! Wake-up latencies that `timerlat` recorded.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_events::coverage::Coverage;
use vmnoise_explain::Explainer;
use vmnoise_render::recorded::Origin;

use super::usage;
use crate::commands::replay::ReplayedRecording;

/// Wake-up latencies of a recording.
pub(super) struct Latencies {
    /// Largest latency until user space, by CPU, in nanoseconds.
    pub(super) latest_ns: BTreeMap<u32, u64>,
    /// Machine and run of the recording.
    pub(super) origin: Origin,
    /// Coverage of the recording.
    pub(super) coverage: Coverage,
}

/// Reads the latencies of a recording.
pub(super) fn read(path: &Path) -> Result<Latencies> {
    let mut recording = ReplayedRecording::open(path)?;
    let origin = Origin::from(&recording.facts);
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
            origin,
            coverage: summary.coverage,
        }),
    }
}
