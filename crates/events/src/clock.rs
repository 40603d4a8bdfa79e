//! Clocks of a run, and the relation between them.

use serde::{Deserialize, Serialize};

/// One simultaneous reading of the TSC and CLOCK_MONOTONIC. The TSC is read before and after
/// CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// TSC just before the reading of the monotonic clock.
    pub before_tsc: u64,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub mono_ns: u64,
    /// TSC just after the reading of the monotonic clock.
    pub after_tsc: u64,
}

/// Clock that stamps gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// The time-stamp counter: constant, and the kernel's own clocksource.
    Tsc,
    /// The time-stamp counter, although this kernel marked the counter as unstable.
    UnstableTsc,
}

/// Evidence for the relation between the guest's TSC and the host's TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OffsetProof {
    /// KVM accepted offset 0 (`KVM_VCPU_TSC_OFFSET`), and no bracketing measurement contradicts the
    /// offset.
    SetAndBracketed,
    /// KVM refused to set the offset. Bracketing measurements estimate the offset and bound its
    /// error.
    Mapped,
}

/// Facts about the clock of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// Clock that stamps gaps.
    pub source: ClockSource,
    /// Frequency of the TSC in Hz, measured against CLOCK_MONOTONIC at start.
    pub tsc_hz: u64,
    /// Evidence for the offset between the guest's and the host's TSC; `None` if no guest stamps
    /// gaps.
    pub offset_proof: Option<OffsetProof>,
    /// Host TSC minus guest TSC, in cycles. vmnoise applies this offset to every gap.
    pub offset_tsc: i64,
    /// Bound of the error of `offset_tsc`, in cycles; 0 if the offset was set.
    pub offset_bound_tsc: u64,
    /// Half of the width of the narrowest bracket that tested the offset, in cycles.
    pub bracket_tsc: u64,
}

impl ClockFacts {
    /// Returns the facts for a workload that is not a guest and reads the machine's own clock.
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
