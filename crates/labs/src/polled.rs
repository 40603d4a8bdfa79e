//! Results of the plain polling loop `lab-poll`.

use serde::{Deserialize, Serialize};

/// A gap between two readings of the TSC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolledGap {
    /// Reading before the gap.
    pub start_tsc: u64,
    /// Reading after the gap.
    pub end_tsc: u64,
}

/// One run of `lab-poll`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolledRun {
    /// Frequency of the TSC in Hz.
    pub tsc_hz: u64,
    /// First reading.
    pub begin_tsc: u64,
    /// Last reading.
    pub end_tsc: u64,
    /// Gaps of the threshold or more, in order.
    pub gaps: Vec<PolledGap>,
}

impl PolledRun {
    /// Returns the length of the median gap in cycles; `None` without gaps.
    pub fn median_tsc(&self) -> Option<u64> {
        let mut lengths: Vec<u64> = self.gaps.iter().map(PolledGap::length_tsc).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied()
    }

    /// Returns the sum of all gaps in cycles.
    pub fn noise_tsc(&self) -> u64 {
        self.gaps.iter().map(PolledGap::length_tsc).sum()
    }

    /// Returns the seconds from the first reading to the last.
    pub fn seconds(&self) -> f64 {
        (self.end_tsc - self.begin_tsc) as f64 / self.tsc_hz as f64
    }
}

impl PolledGap {
    fn length_tsc(&self) -> u64 {
        self.end_tsc - self.start_tsc
    }
}
