//! What the host of a guest did to one of its CPUs: the exits of the vCPU that this CPU is,
//! laid on the guest's clock.

pub(crate) mod subtract;

use std::collections::VecDeque;

use vmnoise_events::{Share, SourceId};

use crate::part::Part;
use crate::piece::Piece;

/// Exits kept while no gap shows that they are over (some 10 MiB).
const KEPT: usize = 1 << 16;

/// One exit of the vCPU that a guest's CPU is. All times are the guest's CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostExit {
    pub(crate) start_mono_ns: u64,
    pub(crate) end_mono_ns: u64,
    /// The name of its reason.
    pub(crate) reason: SourceId,
    /// Whether it went to the VMM.
    pub(crate) heavy: bool,
    /// The host's CPU that it left from.
    pub(crate) exit_cpu: u32,
    /// The host's CPU that it returned on.
    pub(crate) entry_cpu: u32,
    /// In the order of time, without holes: they add up to the exit.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) reported: ReportedExit,
    /// Whether a gap has met it.
    pub(crate) is_met: bool,
}

/// What the host's own recording says of a whole exit, on the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReportedExit {
    pub(crate) dur_ns: u64,
    /// The thesis' own sum; `None` where no work of the host fell inside.
    pub(crate) thesis_ns: Option<u64>,
    /// KVM's part beyond what it takes of exits without work of the host.
    pub(crate) surplus_ns: u64,
    /// KVM's part where too few such exits are known to bound it.
    pub(crate) unbounded_kvm_ns: u64,
}

/// The exits of one CPU that a gap may still need, in order and without overlap.
#[derive(Debug, Default)]
pub(crate) struct HostExits {
    exits: VecDeque<HostExit>,
    /// What a time of an exit may be wrong by on the guest's clock.
    bound_ns: u64,
    /// No exit that ends later is still to come with an earlier begin.
    reported_to_ns: u64,
    /// Gaps that begin earlier may miss exits.
    forgotten_to_ns: u64,
}

impl HostExits {
    /// Takes the next exit; they come in the order of their ends. What a damaged stream
    /// tells twice is taken once.
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

    /// States how sure the times of the exits are.
    pub(crate) fn bind(&mut self, bound_ns: u64) {
        self.bound_ns = bound_ns;
    }

    /// An exit that has no more of a stretch than this, twice the clock's bound, names nobody
    /// there: moved by the bound it would have less than half of that, or nothing.
    pub(crate) fn blur_ns(&self) -> u64 {
        self.bound_ns.saturating_mul(2)
    }

    /// Whether an exit may lie in `start_ns..end_ns`, as far as the clock is known.
    pub(crate) fn is_near(&mut self, start_ns: u64, end_ns: u64) -> bool {
        let from_ns = start_ns.saturating_sub(self.bound_ns);
        let to_ns = end_ns.saturating_add(self.bound_ns);
        !self.overlapping(from_ns, to_ns).is_empty()
    }

    /// The exits that overlap `start_ns..end_ns`.
    pub(crate) fn overlapping(&mut self, start_ns: u64, end_ns: u64) -> &mut [HostExit] {
        let exits = self.exits.make_contiguous();
        let first = exits.partition_point(|exit| exit.end_mono_ns <= start_ns);
        let after = exits.partition_point(|exit| exit.start_mono_ns < end_ns);
        &mut exits[first..after.max(first)]
    }

    /// Forgets what ended by this instant: it can overlap no later gap.
    pub(crate) fn settle(&mut self, settled_ns: u64) {
        let settled_ns = settled_ns.saturating_sub(self.bound_ns);
        let over = self
            .exits
            .partition_point(|exit| exit.end_mono_ns <= settled_ns);
        self.exits.drain(..over);
    }

    /// Whether exits of a gap that begins at `start_ns` may be forgotten.
    pub(crate) fn has_forgotten(&self, start_ns: u64) -> bool {
        start_ns < self.forgotten_to_ns
    }
}

/// What one exit had of one gap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Overlap {
    /// Whether no gap has met it before.
    pub(crate) first: bool,
    /// In the order of shares, sources and CPUs; never 0 ns. Empty where it has too little of
    /// the gap for its clock.
    pub(crate) parts: Vec<Part>,
    /// What it has of the gap then, which is left to nobody.
    pub(crate) unsure_ns: u64,
}

impl Overlap {
    /// What of it is `kvm` that nothing bounds.
    pub(crate) fn unbounded_kvm_ns(&self, exit: &HostExit) -> u64 {
        let of_kvm = self.parts.iter().filter(|part| part.share == Share::Kvm);
        let kvm_ns: u64 = of_kvm.map(|part| part.ns).sum();
        kvm_ns.min(exit.reported.unbounded_kvm_ns)
    }
}

/// Shares of which the host's CPU is the vCPU's own affair: who had the time is the same on
/// each.
fn has_cpu(share: Share) -> bool {
    share.is_of_others() && share != Share::Blocked
}
