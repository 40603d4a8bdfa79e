//! What a join of periodic tasks comes to.

use serde::Serialize;
use vmnoise_events::ShareMap;

use super::branch::{Culprit, Unsure};
use super::tree::Tree;

/// The latencies of a guest's tasks, cut among both kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedLatencies {
    /// How far the two recordings cover each other.
    pub joined: LatencyTotals,
    /// By CPU, ascending.
    pub cpus: Vec<CpuSides>,
    /// Who took the time of the wake-ups above the threshold, largest first; they add up to it.
    pub culprits: Vec<Culprit>,
    /// The latest wake-ups, the latest first.
    pub trees: Vec<Tree>,
}

/// How much of the guest's wake-ups the host's recording covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LatencyTotals {
    /// Wake-ups of the guest.
    pub wakeups: u64,
    /// Those that lie wholly in the time that the host recorded, on a known clock.
    pub witnessed: u64,
    /// Witnessed ones that hold an exit.
    pub joined: u64,
    /// Witnessed ones of at least [`super::JoinedRun::above_ns`].
    pub witnessed_above: u64,
    /// Of these, how many hold an exit.
    pub joined_above: u64,
    /// All latencies together, in nanoseconds.
    pub latency_ns: u64,
    /// What no witness of either kernel explains of them, in nanoseconds.
    pub unexplained_ns: u64,
    /// Exits that lie in a latency, at least in part.
    pub exits: u64,
    /// Where the clocks are not sure who it was.
    pub unsure: Unsure,
    /// As [`super::JoinedTotals::unbounded_kvm_ns`].
    pub unbounded_kvm_ns: u64,
}

/// Where the latencies of one CPU went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuSides {
    /// The guest's CPU.
    pub cpu: u32,
    /// Until the interrupt, the thread and user space.
    pub contexts: [ContextSides; 3],
    /// Each phase by itself, in the order of [`crate::Phase::ALL`], and last what no phase is known of.
    pub phases: [PhaseSides; 6],
}

/// One phase of all latencies together; nanoseconds, as in [`ContextSides`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PhaseSides {
    /// The guest's.
    pub guest_ns: u64,
    /// The host's.
    pub host_ns: u64,
    /// Of either.
    pub unknown_ns: u64,
}

/// Latencies until one context, together; nanoseconds. `guest_ns`, `host_ns` and `unknown_ns` add
/// up to `total_ns`, and so do the shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextSides {
    /// `irq`, `thread` or `user`.
    pub context: &'static str,
    /// How many.
    pub count: u64,
    /// All of them together.
    pub total_ns: u64,
    /// The vCPU was in its guest: what the guest's kernel names, and where the host reported every
    /// exit also what it does not.
    pub guest_ns: u64,
    /// The vCPU was out of its guest, or stolen by the steal clock.
    pub host_ns: u64,
    /// Nobody knows which of the two.
    pub unknown_ns: u64,
    /// By share.
    pub shares_ns: ShareMap<Option<u64>>,
}
