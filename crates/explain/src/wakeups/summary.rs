//! The result of a run of periodic tasks, for schema `vmnoise.latency/1`.

use serde::Serialize;
use vmnoise_events::ShareMap;

use super::distribution::LatencyFigures;
use crate::named::{NamedInterval, SourceSummary};

/// Result of a whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WakeupSummary {
    /// One entry for each CPU, ascending.
    pub cpus: Vec<CpuWakeups>,
    /// Wake-ups with the longest latencies on any CPU, the longest first.
    pub worst: Vec<NamedInterval>,
    /// The earliest wake-up that hit a limit; `None` if none did.
    pub stopped_by: Option<NamedInterval>,
}

/// Result of one CPU. Latencies start at the planned expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuWakeups {
    /// The CPU's number.
    pub cpu: u32,
    /// Number of wake-ups.
    pub count: u64,
    /// Number of expiries that passed before the task could set its timer for them.
    pub missed: u64,
    /// Expiries while the task was stopped; no other figure includes them.
    pub not_measured: u64,
    /// Wake-ups with an unseen step.
    pub incomplete: u64,
    /// Latency until the timer's interrupt; `None` if none was seen.
    pub irq: Option<LatencyFigures>,
    /// Latency until the task was switched in; `None` if that was never seen.
    pub thread: Option<LatencyFigures>,
    /// Latency until the task read the clock in user space.
    pub user: Option<LatencyFigures>,
    /// `user`, corrected for coordinated omission: the latencies that a task with a fixed rate
    /// would have had.
    pub corrected: Option<LatencyFigures>,
    /// Total length of each phase over all wake-ups, in nanoseconds.
    pub phases_ns: PhaseTotals,
    /// Total latency by share, in nanoseconds; the known shares add up to all latencies.
    pub shares_ns: ShareMap<Option<u64>>,
    /// Time by source, the largest total first; a count is a number of wake-ups.
    pub sources: Vec<SourceSummary>,
    /// Wake-ups with a phase that is shorter than the advance of the steal clock.
    pub steal_clamps: u64,
    /// Distribution of `user`: upper edges in nanoseconds and counts.
    #[serde(skip)]
    pub distribution: Vec<(u64, u64)>,
    /// Distribution of `corrected`.
    #[serde(skip)]
    pub corrected_distribution: Vec<(u64, u64)>,
}

/// Time by phase, in nanoseconds; `None` if no wake-up shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PhaseTotals {
    /// [`crate::Phase::ArmedLate`].
    pub armed_late: Option<u64>,
    /// [`crate::Phase::Irq`].
    pub irq: Option<u64>,
    /// [`crate::Phase::Handler`].
    pub handler: Option<u64>,
    /// [`crate::Phase::Wakeup`].
    pub wakeup: Option<u64>,
    /// [`crate::Phase::Return`].
    #[serde(rename = "return")]
    pub return_: Option<u64>,
    /// Time with unknown phase.
    pub unsplit: u64,
}
