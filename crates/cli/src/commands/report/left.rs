//! Least time left in windows of any length, for the page.

use std::collections::BTreeMap;

use vmnoise_explain::{CpuSummary, Interval};
use vmnoise_predict::CpuRecord;
use vmnoise_predict::supply::MeasuredSupply;

/// Largest number of gaps that are kept for a CPU, 20 bytes each. A CPU with more gaps has no
/// curve.
const MOST_GAPS: usize = 2_000_000;

/// Gaps of each CPU.
#[derive(Debug, Default)]
pub struct Left {
    records: BTreeMap<u32, CpuRecord>,
}

impl Left {
    /// Adds the next gap.
    pub fn see(&mut self, gap: &Interval) {
        let record = self
            .records
            .entry(gap.cpu)
            .or_insert_with(|| CpuRecord::new(gap.cpu));
        if record.gaps() <= MOST_GAPS {
            record.push(gap.start_mono_ns, gap.dur_ns, std::iter::empty());
        }
    }

    /// Returns the curves, each with the position of its lane.
    pub fn lines(mut self, cpus: &[CpuSummary], lanes: &[u32]) -> Vec<(usize, Vec<(u64, u64)>)> {
        let line = |(place, cpu): (usize, &u32)| {
            let summary = cpus.iter().find(|it| it.cpu == *cpu)?;
            let (from_ns, to_ns) = summary.measured_mono_ns?;
            let mut record = self.records.remove(cpu)?;
            if record.gaps() > MOST_GAPS {
                return None;
            }
            record.measured(from_ns, to_ns);
            let supply = MeasuredSupply::new(vec![record.taken()]);
            Some((place, supply.drawn()))
        };
        lanes.iter().enumerate().filter_map(line).collect()
    }
}
