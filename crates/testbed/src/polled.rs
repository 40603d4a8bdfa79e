//! Results of `lab-poll`, a program that only reads the TSC in a loop.

use serde::{Deserialize, Serialize};

/// A gap between two readings of the TSC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolledGap {
    /// TSC at the last reading before the gap.
    pub start_tsc: u64,
    /// TSC at the first reading after the gap.
    pub end_tsc: u64,
}

/// Result of one run of `lab-poll`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolledRun {
    /// Frequency of the TSC in Hz.
    pub tsc_hz: u64,
    /// TSC at the first reading of the run.
    pub begin_tsc: u64,
    /// TSC at the last reading of the run.
    pub end_tsc: u64,
    /// Gaps that are at least as long as the threshold, in order of time.
    pub gaps: Vec<PolledGap>,
}

impl PolledRun {
    /// Returns the median of the gaps' lengths in TSC cycles; `None` if there are no gaps.
    pub fn median_tsc(&self) -> Option<u64> {
        let mut lengths: Vec<u64> = self.gaps.iter().map(PolledGap::length_tsc).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied()
    }

    /// Returns the sum of the gaps' lengths in TSC cycles.
    pub fn noise_tsc(&self) -> u64 {
        self.gaps.iter().map(PolledGap::length_tsc).sum()
    }

    /// Returns the time from the first reading to the last, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.end_tsc - self.begin_tsc) as f64 / self.tsc_hz as f64
    }
}

impl PolledGap {
    fn length_tsc(&self) -> u64 {
        self.end_tsc - self.start_tsc
    }
}
