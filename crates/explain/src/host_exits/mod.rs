//! Exits of the vCPU that is one of a guest's CPUs, mapped to the guest's clock.

pub(crate) mod subtract;

use std::collections::VecDeque;

use vmnoise_events::{Share, SourceId};

use crate::part::Part;
use crate::piece::Piece;

/// Maximum number of exits kept until a gap settles them (about 10 MiB).
const KEPT: usize = 1 << 16;

/// One exit of the vCPU that is a guest's CPU. All times are nanoseconds of the guest's
/// CLOCK_MONOTONIC.
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
    /// Pieces in time order, without holes. Their lengths add up to the length of the exit.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) reported: ReportedExit,
    /// Whether a gap that was explained before overlapped the exit.
    pub(crate) is_met: bool,
}

/// Facts of the host's own recording about a whole exit, on the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReportedExit {
    pub(crate) dur_ns: u64,
    /// Time of interrupts, threads and overhead, summed as in the thesis, in nanoseconds; see
    /// [`crate::ExitBudget::thesis_sum_ns`].
    pub(crate) thesis_ns: Option<u64>,
    /// KVM's time above its usual time, in nanoseconds. The usual time is that of exits without
    /// other work of the host.
    pub(crate) surplus_ns: u64,
    /// KVM's time in nanoseconds, if too few similar exits show its usual time; otherwise 0.
    pub(crate) unbounded_kvm_ns: u64,
}

/// Exits of one CPU that a gap may still need, sorted and without overlap.
#[derive(Debug, Default)]
pub(crate) struct HostExits {
    exits: VecDeque<HostExit>,
    /// Error bound of an exit's times on the guest's clock, in nanoseconds.
    bound_ns: u64,
    /// End of the last exit. A later exit that starts before this time is cut to start here.
    reported_to_ns: u64,
    /// Time before which exits were dropped, so that gaps may lack exits.
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

    /// Returns twice the error bound, in nanoseconds. An exit that overlaps a segment by at most
    /// this time names no culprit there. An error as large as the bound would leave at most half of
    /// such an overlap.
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

    /// Forgets the exits that ended by `settled_ns`, minus the error bound, because no later gap
    /// can overlap these exits.
    pub(crate) fn settle(&mut self, settled_ns: u64) {
        let settled_ns = settled_ns.saturating_sub(self.bound_ns);
        let over = self
            .exits
            .partition_point(|exit| exit.end_mono_ns <= settled_ns);
        self.exits.drain(..over);
    }

    /// Returns whether exits in a gap that starts at `start_ns` may have been dropped.
    pub(crate) fn has_forgotten(&self, start_ns: u64) -> bool {
        start_ns < self.forgotten_to_ns
    }
}

/// Part of one exit in one gap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Overlap {
    /// Whether no earlier gap overlapped this exit.
    pub(crate) first: bool,
    /// Parts, ordered by share, source and CPU. No part has 0 ns. Empty if the overlap is too short
    /// for the clock error.
    pub(crate) parts: Vec<Part>,
    /// Time of an overlap that is too short for the clock error, in nanoseconds. This time has no
    /// owner. 0 for a longer overlap.
    pub(crate) unsure_ns: u64,
}

impl Overlap {
    /// Returns the time of `kvm` in this overlap that has no upper bound, in nanoseconds.
    pub(crate) fn unbounded_kvm_ns(&self, exit: &HostExit) -> u64 {
        let of_kvm = self.parts.iter().filter(|part| part.share == Share::Kvm);
        let kvm_ns: u64 = of_kvm.map(|part| part.ns).sum();
        kvm_ns.min(exit.reported.unbounded_kvm_ns)
    }
}

/// Returns whether the parts of this share have a host CPU. The vCPU's own shares have none,
/// because their owner is the same on each CPU.
fn has_cpu(share: Share) -> bool {
    share.is_of_others() && share != Share::Blocked
}
