//! One gap as a tree that names both sides.

use vmnoise_events::Share;

use super::branch::ExitBranch;
use super::result::GapTree;
use crate::attribute::Explained;
use crate::below::{BelowExit, Met};
use crate::named::NamedPart;
use crate::names::Names;
use crate::part::{Part, largest_first};
use crate::piece::NamedPiece;
use crate::summary::WorstGap;

/// A [`GapTree`] without the gap.
#[derive(Debug)]
pub(super) struct Branches {
    guest: Vec<NamedPart>,
    exits: Vec<ExitBranch>,
    steal_ns: u64,
    residual_ns: u64,
    residual: Share,
    witnessed: bool,
}

impl Branches {
    pub(super) fn new(gap: &Explained<'_>) -> Branches {
        let is_guests = |part: &&Part| !part.share.is_residual() && part.share != Share::Steal;
        let guest: Vec<Part> = gap.own.iter().filter(is_guests).copied().collect();
        let own_ns = |is_it: &dyn Fn(Share) -> bool| -> u64 {
            let parts = gap.own.iter().filter(|part| is_it(part.share));
            parts.map(|part| part.ns).sum()
        };
        let exits = gap.exits.iter().zip(gap.met);
        let span_ns = (gap.budget.start_mono_ns, gap.budget.end_mono_ns());
        Branches {
            guest: gap.names.parts(&guest),
            exits: exits
                .filter(|(_, met)| !met.parts.is_empty())
                .map(|(exit, met)| ExitBranch {
                    pieces: pieces(exit, span_ns, gap.names),
                    ..branch(exit, met, gap.budget.start_mono_ns, gap.names)
                })
                .collect(),
            steal_ns: own_ns(&|share| share == Share::Steal),
            residual_ns: own_ns(&Share::is_residual),
            residual: gap.residual,
            witnessed: gap.budget.witnessed,
        }
    }

    pub(super) fn of(self, gap: WorstGap) -> GapTree {
        GapTree {
            gap,
            guest: self.guest,
            exits: self.exits,
            steal_ns: self.steal_ns,
            residual_ns: self.residual_ns,
            residual: self.residual,
            witnessed: self.witnessed,
        }
    }
}

/// One exit that lies in a gap or a latency which began then, without its pieces.
pub(super) fn branch(exit: &BelowExit, met: &Met, start_ns: u64, names: &Names) -> ExitBranch {
    let mut parts = met.parts.clone();
    largest_first(&mut parts);
    ExitBranch {
        reason: names.name(Some(exit.reason)).to_string(),
        heavy: exit.heavy,
        exit_cpu: exit.exit_cpu,
        entry_cpu: exit.entry_cpu,
        after_ns: exit.start_mono_ns.saturating_sub(start_ns),
        dur_ns: parts.iter().map(|part| part.ns).sum(),
        parts: parts.iter().map(|part| names.part(part)).collect(),
        pieces: Vec::new(),
    }
}

/// What of an exit lies between these instants, piece by piece.
pub(super) fn pieces(
    exit: &BelowExit,
    (from_ns, until_ns): (u64, u64),
    names: &Names,
) -> Vec<NamedPiece> {
    let inside = exit.pieces.iter().map(|piece| NamedPiece {
        start_mono_ns: piece.start_mono_ns.max(from_ns),
        end_mono_ns: piece.end_mono_ns.min(until_ns),
        ..piece.named(names)
    });
    let inside = inside.filter(|piece| piece.start_mono_ns < piece.end_mono_ns);
    inside.collect()
}
