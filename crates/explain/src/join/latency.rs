//! Result of a join of periodic tasks.

use serde::Serialize;
use vmnoise_events::ShareMap;

use super::branch::{GuestCulprit, Unsure};
use super::tree::JoinTree;

/// Latencies of a guest's tasks, divided between both kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedLatencies {
    /// Coverage of the wake-ups by the host's recording.
    pub joined: LatencyTotals,
    /// Latencies by CPU, ascending.
    pub cpus: Vec<CpuSides>,
    /// Culprits in the wake-ups above the threshold, largest first. Their times add up to the
    /// latencies of these wake-ups.
    pub culprits: Vec<GuestCulprit>,
    /// Wake-ups with the longest latencies, the longest first.
    pub trees: Vec<JoinTree>,
}

/// Coverage of the guest's wake-ups by the host's recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LatencyTotals {
    /// Number of wake-ups of the guest.
    pub wakeups: u64,
    /// Number of covered wake-ups: the host recorded all of their time, on a known clock.
    pub witnessed: u64,
    /// Number of covered wake-ups that hold an exit.
    pub joined: u64,
    /// Number of covered wake-ups whose latency is at least [`super::JoinedRun::above_ns`].
    pub witnessed_above: u64,
    /// Number of wake-ups in `witnessed_above` that hold an exit.
    pub joined_above: u64,
    /// Sum of all latencies, in nanoseconds.
    pub latency_ns: u64,
    /// Part of `latency_ns` that no probe of either kernel explains, in nanoseconds.
    pub unexplained_ns: u64,
    /// Number of exits that overlap a latency.
    pub exits: u64,
    /// Time for which the clock error hides the culprit.
    pub unsure: Unsure,
    /// Time of the share `kvm` without an upper bound, in nanoseconds; see
    /// [`super::JoinedTotals::unbounded_kvm_ns`].
    pub unbounded_kvm_ns: u64,
}

/// Latencies of one CPU, divided by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuSides {
    /// The guest's CPU.
    pub cpu: u32,
    /// Latencies until the interrupt, until the thread and until user space.
    pub contexts: [ContextSides; 3],
    /// Time in each phase, in the order of [`crate::Phase::ALL`], and last the time with unknown
    /// phase.
    pub phases: [PhaseSides; 6],
}

/// Time in one phase over all latencies, divided by side, in nanoseconds. [`ContextSides`] defines
/// the sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PhaseSides {
    /// Time of the guest.
    pub guest_ns: u64,
    /// Time of the host.
    pub host_ns: u64,
    /// Time of an unknown side.
    pub unknown_ns: u64,
}

/// Sums of latencies until one context, in nanoseconds. `guest_ns`, `host_ns` and `unknown_ns` add
/// up to `total_ns`, and so do the shares in `shares_ns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextSides {
    /// Context at which the latencies end: `irq`, `thread` or `user`.
    pub context: &'static str,
    /// Number of latencies.
    pub count: u64,
    /// Sum of all latencies.
    pub total_ns: u64,
    /// Time in which the vCPU ran its guest and the guest's kernel names the cause. If the host
    /// reported every exit, this includes time whose cause the guest's kernel does not name.
    pub guest_ns: u64,
    /// Time in which the vCPU was outside of its guest, plus steal by the steal clock.
    pub host_ns: u64,
    /// Time of an unknown side.
    pub unknown_ns: u64,
    /// Time by share; `None` if the share could not be measured.
    pub shares_ns: ShareMap<Option<u64>>,
}
