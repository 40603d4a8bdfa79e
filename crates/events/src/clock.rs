//! How one clock is laid over another.

use serde::{Deserialize, Serialize};

/// One simultaneous reading of the TSC and CLOCK_MONOTONIC: the TSC before and
/// after the monotonic read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// TSC just before the monotonic clock was read.
    pub before_tsc: u64,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub mono_ns: u64,
    /// TSC just after the monotonic clock was read.
    pub after_tsc: u64,
}

/// What stamps gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// The time-stamp counter, constant and the kernel's own clocksource.
    Tsc,
    /// The time-stamp counter, although the kernel does not trust it here.
    UnstableTsc,
}

/// How the guest's TSC was shown to be the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OffsetProof {
    /// KVM took offset 0 (`KVM_VCPU_TSC_OFFSET`) and no bracket contradicts it.
    SetAndBracketed,
    /// KVM refused; the offset was estimated by bracketing and has a bound.
    Mapped,
}

/// What is known of the clock of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// What stamps gaps.
    pub source: ClockSource,
    /// Frequency of the TSC in Hz, measured against CLOCK_MONOTONIC at start.
    pub tsc_hz: u64,
    /// How the guest's TSC relates to the host's; `None` where no guest stamps.
    pub offset_proof: Option<OffsetProof>,
    /// Host minus guest TSC that was applied to every gap, in cycles.
    pub offset_tsc: i64,
    /// Bound of `offset_tsc`, in cycles; 0 where the offset was set.
    pub offset_bound_tsc: u64,
    /// Half-width of the tightest bracket that tested the offset, in cycles.
    pub bracket_tsc: u64,
}

impl ClockFacts {
    /// The clock of a workload that is no guest: its stamps are the machine's own.
    pub fn own(source: ClockSource, tsc_hz: u64) -> ClockFacts {
        ClockFacts {
            source,
            tsc_hz,
            offset_proof: None,
            offset_tsc: 0,
            offset_bound_tsc: 0,
            bracket_tsc: 0,
        }
    }
}
