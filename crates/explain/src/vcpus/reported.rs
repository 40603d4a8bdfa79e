//! Exits as they are reported: with names, in the order of time, and piece by piece.

use std::sync::Arc;

use vmnoise_events::{Exit, Share, ShareMap, Vcpu, Witnesses};

use super::budget::{ExitBudget, noise_ns, thesis_sum_ns};
use super::overlay::Overlay;
use crate::exits::{exit_shares, overhead_ns, whose};
use crate::named::NamedPart;
use crate::names::Names;
use crate::piece::NamedPiece;
use crate::trace::{Noise, has_line};

/// One exit with the names of all that had part in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedExit {
    /// Whose.
    pub vcpu: Arc<Vcpu>,
    /// The exit; its split adds up to its length.
    pub exit: Exit,
    /// What is known of the split.
    pub shares: ShareMap<Option<u64>>,
    /// As [`ExitBudget::known_parts`] says.
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

    /// Length without what its guest had asked for, in nanoseconds.
    pub fn noise_ns(&self) -> u64 {
        noise_ns(&self.exit)
    }

    /// What the thesis calls overhead, in nanoseconds; `None` where KVM's part is not seen.
    pub fn overhead_ns(&self) -> Option<u64> {
        overhead_ns(&self.shares)
    }

    /// As [`ExitBudget::thesis_sum_ns`].
    pub fn thesis_sum_ns(&self) -> Option<u64> {
        let parts = self.parts.iter();
        thesis_sum_ns(
            &self.exit,
            self.shares[Share::Kvm].is_some(),
            parts.map(|part| (part.share, part.ns, part.count)),
        )
    }
}

/// An exit, and what the host did inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedExit {
    /// In the order of their ends. What began before the exit begins with it here, what
    /// ended after it ends with it, and `net_ns` is what it had of the exit: together with
    /// the overhead, and with what no line tells, the lines add up to the exit.
    pub noise: Vec<Noise>,
    /// As in [`LongestExit::pieces`]; none where the stream says another share than the
    /// kernel's own sums: then nobody knows the order.
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
                .map(|(activity, net_ns)| Noise {
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

/// One of the longest exits, piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongestExit {
    /// The exit and its budget.
    pub exit: NamedExit,
    /// In the order of time, without holes: they add up to its length.
    pub pieces: Vec<NamedPiece>,
    /// How much of the pieces' time is another share's by the kernel's own sums, in
    /// nanoseconds: not 0 where activities or intervals were lost.
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

/// The pieces of an exit that was asked for piece by piece, and how much of them is misplaced.
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

/// How much of these pieces' time is another share's by the split. What one share lacks
/// another has too much of.
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
