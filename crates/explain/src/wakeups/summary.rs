//! The result of a run of periodic tasks, for schema `vmnoise.latency/1`.

use serde::{Serialize, Serializer};
use vmnoise_events::Share;

use super::distribution::LatencyFigures;
use super::wakeup::Wakeup;
use crate::named::{NamedPart, SourceSummary};
use crate::names::Names;
use crate::phase::Phase;
use crate::share_totals::ShareTotals;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wakeups {
    /// One entry for each CPU, ascending.
    pub cpus: Vec<CpuWakeups>,
    /// The latest wake-ups over all CPUs, the latest first.
    pub worst: Vec<WorstWakeup>,
    /// The earliest wake-up that hit a limit; `None` if none did.
    pub stopped_by: Option<WorstWakeup>,
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
    /// The same as if no task had waited for the one before: without coordinated omission.
    pub corrected: Option<LatencyFigures>,
    /// How long the phases of all wake-ups were together, in nanoseconds.
    pub phases_ns: PhaseTotals,
    /// Where the latencies went, in nanoseconds; what is known adds up to all of them.
    pub shares_ns: ShareTotals,
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

/// Nanoseconds per phase; `None` where no wake-up could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PhaseTotals {
    /// [`Phase::ArmedLate`].
    pub armed_late: Option<u64>,
    /// [`Phase::Irq`].
    pub irq: Option<u64>,
    /// [`Phase::Handler`].
    pub handler: Option<u64>,
    /// [`Phase::Wakeup`].
    pub wakeup: Option<u64>,
    /// [`Phase::Return`].
    #[serde(rename = "return")]
    pub return_: Option<u64>,
    /// Time whose phase is unknown.
    pub unsplit: u64,
}

/// One of the latest wake-ups, explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorstWakeup {
    /// The CPU of the task.
    pub cpu: u32,
    /// The planned expiry, in nanoseconds since the first task began.
    pub at_ns: u64,
    /// The planned expiry, CLOCK_MONOTONIC in nanoseconds.
    pub expiry_mono_ns: u64,
    /// Until user space.
    pub latency_ns: u64,
    /// Until the timer's interrupt.
    pub irq_ns: Option<u64>,
    /// Until the task was switched in.
    pub thread_ns: Option<u64>,
    /// Where it went, in the order of phases; adds up to `latency_ns`.
    #[serde(serialize_with = "by_phase")]
    pub parts: Vec<NamedPart>,
}

impl WorstWakeup {
    pub(crate) fn named(wakeup: &Wakeup, origin_ns: u64, names: &Names) -> WorstWakeup {
        // An activity may have part in several phases: none is counted.
        let uncounted = |part| NamedPart { count: 0, ..part };
        let parts = names.parts(&wakeup.parts).into_iter();
        WorstWakeup {
            cpu: wakeup.cpu,
            at_ns: wakeup.expiry_mono_ns.saturating_sub(origin_ns),
            expiry_mono_ns: wakeup.expiry_mono_ns,
            latency_ns: wakeup.latency_ns,
            irq_ns: wakeup.irq_ns,
            thread_ns: wakeup.thread_ns,
            parts: parts.map(uncounted).collect(),
        }
    }
}

/// Parts as the document of a wake-up has them.
fn by_phase<S: Serializer>(parts: &[NamedPart], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct OfWakeup<'a> {
        phase: Option<Phase>,
        share: Share,
        source: Option<&'a str>,
        ns: u64,
    }
    to.collect_seq(parts.iter().map(|part| OfWakeup {
        phase: part.phase,
        share: part.share,
        source: part.source.as_deref(),
        ns: part.ns,
    }))
}
