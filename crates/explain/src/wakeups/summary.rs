//! The result of a run of periodic tasks, for schema `vmnoise.latency/1`.

use serde::Serialize;
use vmnoise_events::ShareMap;

use super::distribution::LatencyFigures;
use crate::named::{NamedInterval, SourceSummary};

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wakeups {
    /// One entry for each CPU, ascending.
    pub cpus: Vec<CpuWakeups>,
    /// The latest wake-ups over all CPUs, the latest first.
    pub worst: Vec<NamedInterval>,
    /// The earliest wake-up that hit a limit; `None` if none did.
    pub stopped_by: Option<NamedInterval>,
}

/// One CPU. A latency runs from the planned expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuWakeups {
    /// The CPU's number.
    pub cpu: u32,
    /// How often its task woke up.
    pub count: u64,
    /// Expiries that were over before the task could ask for them.
    pub missed: u64,
    /// Expiries that came while the task was stopped; they are in no other figure.
    pub not_measured: u64,
    /// Wake-ups of which a step was not seen.
    pub incomplete: u64,
    /// Until the timer's interrupt; `None` if none was seen.
    pub irq: Option<LatencyFigures>,
    /// Until the task was switched in; `None` if that was never seen.
    pub thread: Option<LatencyFigures>,
    /// Until it read the clock in user space.
    pub user: Option<LatencyFigures>,
    /// `user` as if no task had waited for the one before: without coordinated omission.
    pub corrected: Option<LatencyFigures>,
    /// How long the phases of all wake-ups were together, in nanoseconds.
    pub phases_ns: PhaseTotals,
    /// Where the latencies went, in nanoseconds; what is known adds up to all of them.
    pub shares_ns: ShareMap<Option<u64>>,
    /// Who took how much, largest total first; a count is that of wake-ups.
    pub sources: Vec<SourceSummary>,
    /// Wake-ups with a phase for which the steal clock claimed more than its length.
    pub steal_clamps: u64,
    /// The distribution of `user`: upper edges in nanoseconds and counts.
    #[serde(skip)]
    pub distribution: Vec<(u64, u64)>,
    /// That of `corrected`.
    #[serde(skip)]
    pub corrected_distribution: Vec<(u64, u64)>,
}

/// Nanoseconds per phase; `None` where no wake-up could say.
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
    /// Time whose phase is unknown.
    pub unsplit: u64,
}
