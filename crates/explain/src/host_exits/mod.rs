//! Exits of the vCPU that is one of a guest's CPUs, mapped to the guest's clock.

pub(crate) mod subtract;

use std::collections::VecDeque;

use vmnoise_events::{Share, SourceId};

use crate::part::Part;
use crate::piece::Piece;

/// Maximum number of exits kept until a gap settles them (about 10 MiB).
const KEPT: usize = 1 << 16;

/// One exit of the vCPU that is a guest's CPU. All times are the guest's CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostExit {
    pub(crate) start_mono_ns: u64,
    pub(crate) end_mono_ns: u64,
    /// Name of the exit's reason.
    pub(crate) reason: SourceId,
    /// Whether the exit went to the VMM.
    pub(crate) heavy: bool,
    /// Host CPU on which the vCPU left its guest.
    pub(crate) exit_cpu: u32,
    /// Host CPU on which the vCPU returned to its guest.
    pub(crate) entry_cpu: u32,
    /// Pieces in time order, without holes; they add up to the exit.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) reported: ReportedExit,
    /// Whether an earlier gap overlapped the exit.
    pub(crate) is_met: bool,
}

/// Facts of the host's own recording about a whole exit, on the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReportedExit {
    pub(crate) dur_ns: u64,
    /// Interrupts, threads and overhead, summed as in the thesis; see
    /// [`crate::ExitBudget::thesis_sum_ns`].
    pub(crate) thesis_ns: Option<u64>,
    /// KVM's time above its usual time in exits without work of the host.
    pub(crate) surplus_ns: u64,
    /// KVM's time, if too few similar exits are known to limit this time.
    pub(crate) unbounded_kvm_ns: u64,
}

/// Exits of one CPU that a gap may still need, sorted and without overlap.
#[derive(Debug, Default)]
pub(crate) struct HostExits {
    exits: VecDeque<HostExit>,
    /// Error bound of an exit's times on the guest's clock.
    bound_ns: u64,
    /// End of the last exit. An exit that starts earlier is cut to start here.
    reported_to_ns: u64,
    /// Time before which gaps may miss exits.
    forgotten_to_ns: u64,
}

impl HostExits {
    /// Takes the next exit. Exits come in the order of their ends; a duplicate in a damaged stream
    /// is ignored.
    pub(crate) fn push(&mut self, mut exit: HostExit) {
        let from_ns = self.reported_to_ns;
        if exit.end_mono_ns <= from_ns {
            return;
        }
        if exit.start_mono_ns < from_ns {
            exit.start_mono_ns = from_ns;
            exit.pieces.retain(|piece| piece.end_mono_ns > from_ns);
            for piece in &mut exit.pieces {
                piece.start_mono_ns = piece.start_mono_ns.max(from_ns);
            }
        }
        self.reported_to_ns = exit.end_mono_ns;
        if self.exits.len() == KEPT
            && let Some(first) = self.exits.pop_front()
        {
            self.forgotten_to_ns = first.end_mono_ns;
        }
        self.exits.push_back(exit);
    }

    /// Sets the error bound of the exits' times.
    pub(crate) fn bind(&mut self, bound_ns: u64) {
        self.bound_ns = bound_ns;
    }

    /// Returns twice the clock bound. If an exit overlaps a segment by no more than this, it names
    /// nobody there: an error of the bound would leave less than half of the overlap.
    pub(crate) fn blur_ns(&self) -> u64 {
        self.bound_ns.saturating_mul(2)
    }

    /// Returns whether an exit may lie in `start_ns..end_ns`, within the clock error.
    pub(crate) fn is_near(&mut self, start_ns: u64, end_ns: u64) -> bool {
        let from_ns = start_ns.saturating_sub(self.bound_ns);
        let to_ns = end_ns.saturating_add(self.bound_ns);
        !self.overlapping(from_ns, to_ns).is_empty()
    }

    /// Returns the exits that overlap `start_ns..end_ns`.
    pub(crate) fn overlapping(&mut self, start_ns: u64, end_ns: u64) -> &mut [HostExit] {
        let exits = self.exits.make_contiguous();
        let first = exits.partition_point(|exit| exit.end_mono_ns <= start_ns);
        let after = exits.partition_point(|exit| exit.start_mono_ns < end_ns);
        &mut exits[first..after.max(first)]
    }

    /// Forgets exits that ended by this time, because no later gap can overlap them.
    pub(crate) fn settle(&mut self, settled_ns: u64) {
        let settled_ns = settled_ns.saturating_sub(self.bound_ns);
        let over = self
            .exits
            .partition_point(|exit| exit.end_mono_ns <= settled_ns);
        self.exits.drain(..over);
    }

    /// Returns whether exits of a gap that starts at `start_ns` may be forgotten.
    pub(crate) fn has_forgotten(&self, start_ns: u64) -> bool {
        start_ns < self.forgotten_to_ns
    }
}

/// Part of one exit in one gap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Overlap {
    /// Whether no earlier gap overlapped this exit.
    pub(crate) first: bool,
    /// Parts, ordered by share, source and CPU; never 0 ns. Empty if the overlap is too short for
    /// the clock error.
    pub(crate) parts: Vec<Part>,
    /// Length of such a short overlap, which stays without an owner.
    pub(crate) unsure_ns: u64,
}

impl Overlap {
    /// Returns the `kvm` time of this overlap without a bound.
    pub(crate) fn unbounded_kvm_ns(&self, exit: &HostExit) -> u64 {
        let of_kvm = self.parts.iter().filter(|part| part.share == Share::Kvm);
        let kvm_ns: u64 = of_kvm.map(|part| part.ns).sum();
        kvm_ns.min(exit.reported.unbounded_kvm_ns)
    }
}

/// Returns whether the host CPU matters for this share. For the vCPU's own shares, the owner is the
/// same on each CPU.
fn has_cpu(share: Share) -> bool {
    share.is_of_others() && share != Share::Blocked
}
