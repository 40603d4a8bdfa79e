//! One gap as a tree that names both sides.

use vmnoise_events::Share;

use super::branch::{ExitBranch, HostPart, HostPiece};
use super::result::GapTree;
use crate::attribute::Explained;
use crate::below::{BelowExit, Met};
use crate::budget::{Part, add_up, largest_first};
use crate::named::NamedPart;
use crate::names::Names;
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
        let mut guest: Vec<Part> = gap.own.iter().filter(is_guests).copied().collect();
        add_up(&mut guest);
        largest_first(&mut guest);
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
                    pieces: pieces(exit, span_ns, span_ns.0, gap.names),
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
    let parts = met.parts.iter().map(|part| HostPart {
        share: part.share,
        name: part
            .source
            .map(|id| names.name(Some(id)).to_string())
            .map(Into::into),
        cpu: part.cpu,
        ns: part.ns,
        count: part.count,
    });
    let mut parts: Vec<HostPart> = parts.collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    ExitBranch {
        reason: names.name(Some(exit.reason)).to_string(),
        heavy: exit.heavy,
        exit_cpu: exit.exit_cpu,
        entry_cpu: exit.entry_cpu,
        after_ns: exit.start_mono_ns.saturating_sub(start_ns),
        dur_ns: parts.iter().map(|part| part.ns).sum(),
        parts,
        pieces: Vec::new(),
    }
}

/// What of an exit lies between these instants of a gap or latency that began at `since_ns`,
/// piece by piece.
pub(super) fn pieces(
    exit: &BelowExit,
    (from_ns, until_ns): (u64, u64),
    since_ns: u64,
    names: &Names,
) -> Vec<HostPiece> {
    let inside = exit.pieces.iter().filter_map(|piece| {
        let start_ns = piece.start_mono_ns.max(from_ns);
        let end_ns = piece.end_mono_ns.min(until_ns);
        Some(HostPiece {
            after_ns: start_ns - since_ns,
            dur_ns: end_ns.checked_sub(start_ns).filter(|ns| *ns > 0)?,
            share: piece.share,
            name: piece
                .source
                .map(|id| names.name(Some(id)).to_string())
                .map(Into::into),
            cpu: piece.cpu,
        })
    });
    inside.collect()
}
