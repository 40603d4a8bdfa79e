//! How late timers were, as `timerlat` recorded it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use vmnoise_explain::Explainer;

use crate::commands::replay::Recording;

/// The latest wake-up of each CPU, nanoseconds.
pub(super) fn latest_ns(path: &Path) -> Result<BTreeMap<u32, u64>> {
    let mut recording = Recording::open(path)?;
    let mut explainer = Explainer::new(&recording.facts);
    recording.each(|event| {
        explainer.push(event, &mut |_| {});
        Ok(())
    })?;
    explainer.run_out(&mut |_| {});
    recording.report_ending()?;
    let wakeups = explainer.finish().wakeups;
    let cpus = wakeups.iter().flat_map(|it| &it.cpus);
    let latest = cpus.filter_map(|cpu| Some((cpu.cpu, cpu.user.as_ref()?.max_ns)));
    Ok(latest.collect())
}
