//! What a join comes to.

use serde::Serialize;
use vmnoise_events::{FinishReason, Name};

use super::branch::{Culprit, Unsure};
use super::latency::JoinedLatencies;
use super::pairing::{Pair, Pairing};
use super::tree::Tree;
use crate::losses::Losses;
use crate::summary::Summary;

/// A guest's run, with what its host did as one more witness.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedRun {
    /// The guest's summary; shares of the host are known in it.
    pub summary: Summary,
    /// Which vCPU each CPU of the guest is, by CPU.
    pub pairs: Vec<Pair>,
    /// What speaks for that, and for every other VM that may be the guest.
    pub pairing: Pairing,
    /// How far the two recordings cover each other.
    pub joined: JoinedTotals,
    /// Gaps of at least this length count for the culprits, in nanoseconds.
    pub above_ns: u64,
    /// Who took the time of those gaps, largest first; they add up to it.
    pub culprits: Vec<Culprit>,
    /// The longest gaps, longest first.
    pub trees: Vec<Tree>,
    /// The thesis' own sum beside ours, over the joined exits that held work of the host.
    pub thesis: Option<ThesisSum>,
    /// Of periodic tasks, which observe no gaps; `None` of other workloads.
    pub latencies: Option<JoinedLatencies>,
    /// What is to be said of the host's recording.
    pub host: HostSide,
}

/// How much of the guest's gaps the host's recording covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct JoinedTotals {
    /// Gaps of the guest.
    pub gaps: u64,
    /// Gaps that lie wholly in the time that the host recorded, on a known clock.
    pub witnessed: u64,
    /// Witnessed gaps that hold an exit.
    pub joined: u64,
    /// Witnessed gaps above [`JoinedRun::above_ns`].
    pub witnessed_above: u64,
    /// Of these, how many hold an exit.
    pub joined_above: u64,
    /// Length of the witnessed gaps, in nanoseconds.
    pub witnessed_ns: u64,
    /// What no witness of either kernel explains of them, `hw` included, in nanoseconds.
    pub witnessed_unexplained_ns: u64,
    /// Length of the joined gaps, in nanoseconds.
    pub joined_ns: u64,
    /// What no witness of either kernel explains of them, in nanoseconds.
    pub unexplained_ns: u64,
    /// Exits that lie in a gap, at least in part.
    pub exits: u64,
    /// Where the clocks are not sure who it was.
    pub unsure: Unsure,
    /// `kvm` of exits that hold work of the host, and for whose reason too few exits had shown by
    /// then what KVM usually takes, in nanoseconds.
    pub unbounded_kvm_ns: u64,
}

/// Of the joined exits that held work of the host: what each way of adding up explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ThesisSum {
    /// How many.
    pub exits: u64,
    /// Their length, in nanoseconds.
    pub length_ns: u64,
    /// Interrupts, threads and overhead by the thesis' own sum, in nanoseconds.
    pub thesis_ns: u64,
    /// What is explained here: all but what is booked as unexplained, in nanoseconds.
    pub ours_ns: u64,
}

/// What is to be said of the host's recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostSide {
    /// `uname -r`.
    pub kernel: Name,
    /// The hypervisor that the host itself runs on; `None` on bare metal.
    pub hypervisor: Option<Name>,
    /// Exits shorter than this were not recorded one by one, in nanoseconds.
    pub threshold_ns: u64,
    /// Exits for other reasons were not recorded one by one; empty is all reasons.
    pub only_reasons: Vec<Name>,
    /// What was lost of its stream.
    pub losses: Losses,
    /// All of that.
    pub lost_events: u64,
    /// What came of it when the gaps of its time had been explained without it.
    pub late_events: u64,
    /// Whether the run ended in order.
    pub complete: bool,
    /// Why it ended; `None` if it did not.
    pub finish_reason: Option<FinishReason>,
}
