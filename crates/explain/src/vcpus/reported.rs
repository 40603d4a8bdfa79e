//! Exits for output: with names, in time order, and with pieces.

use std::sync::Arc;

use vmnoise_events::{Exit, Share, ShareMap, Vcpu, Witnesses};

use super::budget::{ExitBudget, noise_ns, thesis_sum_ns};
use super::overlay::Overlay;
use crate::exits::{exit_shares, overhead_ns, whose};
use crate::named::NamedPart;
use crate::names::Names;
use crate::piece::NamedPiece;
use crate::trace::{TraceNoise, has_line};

/// One exit with the names of all culprits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedExit {
    /// The vCPU.
    pub vcpu: Arc<Vcpu>,
    /// The exit. Its shares add up to its length.
    pub exit: Exit,
    /// Time of the exit by share; `None` if a share is unknown.
    pub shares: ShareMap<Option<u64>>,
    /// Parts as in [`ExitBudget::known_parts`].
    pub parts: Vec<NamedPart>,
}

impl NamedExit {
    pub(super) fn new(
        budget: &ExitBudget,
        vcpu: &Arc<Vcpu>,
        names: &Names,
        witnesses: &Witnesses,
    ) -> NamedExit {
        let shares = exit_shares(&budget.exit.split, vcpu.sees_kvm, witnesses);
        let parts = budget.known_parts(vcpu, witnesses);
        NamedExit {
            vcpu: Arc::clone(vcpu),
            exit: budget.exit,
            shares,
            parts: names.parts(&parts),
        }
    }

    /// Returns the length without the sleep that the guest asked for, in nanoseconds.
    pub fn noise_ns(&self) -> u64 {
        noise_ns(&self.exit)
    }

    /// Returns the overhead as the thesis defines it, in nanoseconds; `None` if KVM's part is not
    /// seen.
    pub fn overhead_ns(&self) -> Option<u64> {
        overhead_ns(&self.shares)
    }

    /// Returns the sum of interrupts, threads and overhead as in the thesis; see
    /// [`ExitBudget::thesis_sum_ns`].
    pub fn thesis_sum_ns(&self) -> Option<u64> {
        let parts = self.parts.iter();
        thesis_sum_ns(
            &self.exit,
            self.shares[Share::Kvm].is_some(),
            parts.map(|part| (part.share, part.ns, part.count)),
        )
    }
}

/// An exit, with the work of the host during the exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedExit {
    /// Activities, ordered by end and cut to the exit. `net_ns` is the time that each activity took
    /// in the exit. These times, the overhead and the time without a line add up to the length of
    /// the exit.
    pub noise: Vec<TraceNoise>,
    /// Pieces as in [`LongestExit::pieces`]. Empty if the stream and the kernel's own sums disagree
    /// about a share, because the order is then unknown.
    pub pieces: Vec<NamedPiece>,
    /// The exit.
    pub exit: NamedExit,
}

impl TracedExit {
    pub(super) fn new(exit: NamedExit, overlay: &Overlay, names: &Names) -> TracedExit {
        let (start_ns, end_ns) = (exit.exit.start_mono_ns, exit.exit.end_mono_ns);
        let lines = overlay.noise.iter();
        let lines = lines.filter(|(activity, _)| has_line(activity.kind));
        let (pieces, misplaced_ns) = pieces_of(overlay, names, &exit);
        TracedExit {
            noise: lines
                .map(|(activity, net_ns)| TraceNoise {
                    cpu: activity.cpu,
                    kind: activity.kind,
                    name: names.shared(activity.source),
                    start_mono_ns: activity.start_mono_ns.max(start_ns),
                    end_mono_ns: activity.end_mono_ns.min(end_ns),
                    net_ns: *net_ns,
                })
                .collect(),
            pieces: if misplaced_ns == 0 {
                pieces
            } else {
                Vec::new()
            },
            exit,
        }
    }
}

/// One of the longest exits, with its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongestExit {
    /// The exit and its budget.
    pub exit: NamedExit,
    /// Pieces in time order, without holes. Their lengths add up to the length of the exit.
    pub pieces: Vec<NamedPiece>,
    /// Time of pieces that the kernel's own sums assign to another share, in nanoseconds. This time
    /// is not 0 if activities or intervals were lost.
    pub misplaced_ns: u64,
}

impl LongestExit {
    pub(super) fn new(exit: NamedExit, overlay: &Overlay, names: &Names) -> LongestExit {
        let (pieces, misplaced_ns) = pieces_of(overlay, names, &exit);
        LongestExit {
            misplaced_ns,
            exit,
            pieces,
        }
    }
}

/// Returns the pieces of an exit, and the time of the pieces in the wrong share, in nanoseconds.
fn pieces_of(overlay: &Overlay, names: &Names, exit: &NamedExit) -> (Vec<NamedPiece>, u64) {
    let pieces = overlay.pieces.iter().map(|piece| piece.named(names));
    let mut pieces: Vec<NamedPiece> = pieces.collect();
    pieces.dedup_by(|next, last| {
        let goes_on = (next.cpu, next.share, &next.name) == (last.cpu, last.share, &last.name);
        if goes_on {
            last.end_mono_ns = next.end_mono_ns;
        }
        goes_on
    });
    let misplaced_ns = misplaced_ns(&exit.exit.split, &pieces);
    for piece in &mut pieces {
        piece.share = whose(piece.share, &exit.shares);
    }
    (pieces, misplaced_ns)
}

/// Returns the time of these pieces that `split` assigns to another share, in nanoseconds. Only the
/// shares with too little time are added up, because each surplus of one share is missing in
/// another.
fn misplaced_ns(split: &ShareMap<u64>, pieces: &[NamedPiece]) -> u64 {
    let pieces_of = |share| -> u64 {
        let of_share = pieces.iter().filter(|piece| piece.share == share);
        of_share.map(NamedPiece::dur_ns).sum()
    };
    split
        .iter()
        .map(|(share, ns)| ns.saturating_sub(pieces_of(share)))
        .sum()
}
