//! Result of a join.

use serde::Serialize;
use vmnoise_events::{FinishReason, Name};

use super::branch::{GuestCulprit, Unsure};
use super::latency::JoinedLatencies;
use super::pairing::{Pairing, VcpuPair};
use super::tree::JoinTree;
use crate::losses::Losses;
use crate::summary::Summary;

/// A guest's run, explained with the recording of its host.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedRun {
    /// Summary of the guest's run, with the shares that the host's recording explains.
    pub summary: Summary,
    /// Pairs of the guest's CPUs and the host's vCPUs, ordered by CPU.
    pub pairs: Vec<VcpuPair>,
    /// Evidence for the pairs, and for every other VM that may be the guest.
    pub pairing: Pairing,
    /// Coverage of the guest's gaps by the host's recording.
    pub joined: JoinedTotals,
    /// Minimum length of a gap that counts for the culprits, in nanoseconds.
    pub above_ns: u64,
    /// Culprits in the gaps above the threshold, largest first. Their times add up to the length of
    /// these gaps.
    pub culprits: Vec<GuestCulprit>,
    /// The longest gaps, longest first.
    pub trees: Vec<JoinTree>,
    /// Explained time of the joined exits that contained work of the host, computed as in the
    /// thesis and as in vmnoise. `None` without such exits.
    pub thesis: Option<ThesisSum>,
    /// Latencies of periodic tasks, which observe no gaps; `None` for other workloads.
    pub latencies: Option<JoinedLatencies>,
    /// Facts about the host's recording.
    pub host: HostSide,
}

/// Coverage of the guest's gaps by the host's recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct JoinedTotals {
    /// Number of gaps of the guest.
    pub gaps: u64,
    /// Number of covered gaps: the host recorded all of their time, on a known clock.
    pub witnessed: u64,
    /// Number of covered gaps that hold an exit.
    pub joined: u64,
    /// Number of covered gaps of at least [`JoinedRun::above_ns`].
    pub witnessed_above: u64,
    /// Number of gaps in `witnessed_above` that hold an exit.
    pub joined_above: u64,
    /// Total length of the covered gaps, in nanoseconds.
    pub witnessed_ns: u64,
    /// Time of the covered gaps that no probe of either kernel explains, `hw` included, in
    /// nanoseconds.
    pub witnessed_unexplained_ns: u64,
    /// Total length of the joined gaps, in nanoseconds.
    pub joined_ns: u64,
    /// Time of the joined gaps that no probe of either kernel explains, in nanoseconds.
    pub unexplained_ns: u64,
    /// Number of exits that overlap a gap.
    pub exits: u64,
    /// Time for which the clock error hides the culprit.
    pub unsure: Unsure,
    /// Time of the share `kvm` without an upper bound, in nanoseconds. These exits contain other
    /// work of the host, and too few earlier exits for the same reason show KVM's usual time.
    pub unbounded_kvm_ns: u64,
}

/// Explained time of the joined exits that contained work of the host, computed in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ThesisSum {
    /// Number of exits.
    pub exits: u64,
    /// Total length of these exits, in nanoseconds.
    pub length_ns: u64,
    /// Interrupts, threads and overhead, summed as in the thesis, in nanoseconds.
    pub thesis_ns: u64,
    /// Time that vmnoise explains: all shares except `unexplained`, in nanoseconds.
    pub ours_ns: u64,
}

/// Facts about the host's recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostSide {
    /// Kernel release of the host (`uname -r`).
    pub kernel: Name,
    /// Hypervisor on which the host itself runs; `None` on bare metal.
    pub hypervisor: Option<Name>,
    /// Minimum length of the exits that were recorded one by one, in nanoseconds.
    pub threshold_ns: u64,
    /// Reasons whose exits were recorded one by one; empty if all reasons were recorded.
    pub only_reasons: Vec<Name>,
    /// Lost records of the host's stream, by kind.
    pub losses: Losses,
    /// Number of lost records.
    pub lost_events: u64,
    /// Number of events that arrived after the gaps at their time had already been explained.
    pub late_events: u64,
    /// Whether the host's recording ended normally.
    pub complete: bool,
    /// Reason for the end of the host's recording; `None` if the recording was cut off.
    pub finish_reason: Option<FinishReason>,
}
