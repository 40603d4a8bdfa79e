//! What the plain polling loop `lab-poll` observed.

use serde::{Deserialize, Serialize};

/// A hole between two readings of the TSC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolledGap {
    /// The reading before it.
    pub start_tsc: u64,
    /// The reading after it.
    pub end_tsc: u64,
}

/// One run of `lab-poll`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled {
    /// Frequency of the TSC in Hz.
    pub tsc_hz: u64,
    /// The first reading.
    pub begin_tsc: u64,
    /// The last reading.
    pub end_tsc: u64,
    /// Every gap of the threshold or more, in order.
    pub gaps: Vec<PolledGap>,
}

impl Polled {
    /// Length of the median gap in cycles; `None` without gaps.
    pub fn median_tsc(&self) -> Option<u64> {
        let mut lengths: Vec<u64> = self.gaps.iter().map(PolledGap::length_tsc).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied()
    }

    /// Cycles of all gaps together.
    pub fn noise_tsc(&self) -> u64 {
        self.gaps.iter().map(PolledGap::length_tsc).sum()
    }

    /// Seconds from the first reading to the last.
    pub fn seconds(&self) -> f64 {
        (self.end_tsc - self.begin_tsc) as f64 / self.tsc_hz as f64
    }
}

impl PolledGap {
    fn length_tsc(&self) -> u64 {
        self.end_tsc - self.start_tsc
    }
}
