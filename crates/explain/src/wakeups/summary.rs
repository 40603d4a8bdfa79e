//! Result of a run of periodic tasks, for schema `vmnoise.latency/1`.

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
    /// The earliest wake-up that reached a limit; `None` if no wake-up reached one.
    pub stopped_by: Option<NamedInterval>,
}

/// Result of one CPU. Latencies start at the planned expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuWakeups {
    /// The CPU's number.
    pub cpu: u32,
    /// Number of wake-ups.
    pub count: u64,
    /// Number of expiries that passed before the task could set its timer to them.
    pub missed: u64,
    /// Number of expiries while the task was stopped. No other value includes these expiries.
    pub not_measured: u64,
    /// Number of wake-ups in which an event that delimits a phase is missing.
    pub incomplete: u64,
    /// Latencies until the timer's interrupt; `None` if no probe saw this interrupt.
    pub irq: Option<LatencyFigures>,
    /// Latencies until the task was switched in; `None` if no probe saw a switch.
    pub thread: Option<LatencyFigures>,
    /// Latencies until the task read the clock in user space; `None` without wake-ups.
    pub user: Option<LatencyFigures>,
    /// Latencies until user space, corrected for coordinated omission: the latencies that a task
    /// with a fixed rate would have had.
    pub corrected: Option<LatencyFigures>,
    /// Total length of each phase over all wake-ups, in nanoseconds.
    pub phases_ns: PhaseTotals,
    /// Total latency by share, in nanoseconds; the known shares add up to all latencies.
    pub shares_ns: ShareMap<Option<u64>>,
    /// Time by source, the largest total first. The `count` of a source is a number of wake-ups.
    pub sources: Vec<SourceSummary>,
    /// Number of wake-ups with a phase that is shorter than the advance of the steal clock.
    pub steal_clamps: u64,
    /// Distribution of `user`: the upper edge of each bucket in nanoseconds, and its number of
    /// latencies.
    #[serde(skip)]
    pub distribution: Vec<(u64, u64)>,
    /// Distribution of `corrected`: the upper edge of each bucket in nanoseconds, and its number of
    /// latencies.
    #[serde(skip)]
    pub corrected_distribution: Vec<(u64, u64)>,
}

/// Total time of each phase, in nanoseconds; `None` if no wake-up shows the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PhaseTotals {
    /// Total time of [`crate::Phase::ArmedLate`].
    pub armed_late: Option<u64>,
    /// Total time of [`crate::Phase::Irq`].
    pub irq: Option<u64>,
    /// Total time of [`crate::Phase::Handler`].
    pub handler: Option<u64>,
    /// Total time of [`crate::Phase::Wakeup`].
    pub wakeup: Option<u64>,
    /// Total time of [`crate::Phase::Return`].
    #[serde(rename = "return")]
    pub return_: Option<u64>,
    /// Total time whose phase is unknown.
    pub unsplit: u64,
}
