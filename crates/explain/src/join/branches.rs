//! What a tree says of a gap or wake-up beside its names: both sides of each stretch of it.

use vmnoise_events::Share;

use super::branch::ExitBranch;
use super::tree::{Stretch, Tree};
use crate::attribute::Explained;
use crate::below::{BelowExit, Met};
use crate::interval::NamedInterval;
use crate::names::Names;
use crate::part::{Part, largest_first};
use crate::piece::NamedPiece;
use crate::wakeups::{CutStretch, ExplainedWakeup};

/// A [`Tree`] without the gap or wake-up.
#[derive(Debug)]
pub(super) struct Branches {
    stretches: Vec<Stretch>,
    residual: Share,
    witnessed: bool,
}

impl Branches {
    pub(super) fn of_gap(gap: &Explained<'_>) -> Branches {
        let is_guests = |part: &&Part| !part.share.is_residual() && part.share != Share::Steal;
        let guest: Vec<Part> = gap.own.iter().filter(is_guests).copied().collect();
        let own_ns = |is_it: &dyn Fn(Share) -> bool| -> u64 {
            let parts = gap.own.iter().filter(|part| is_it(part.share));
            parts.map(|part| part.ns).sum()
        };
        let start_ns = gap.budget.start_mono_ns;
        let span_ns = (start_ns, gap.budget.end_mono_ns());
        let exits = gap.exits.iter().zip(gap.met);
        let whole = Stretch {
            phase: None,
            dur_ns: gap.budget.dur_ns,
            guest: gap.names.parts(&guest),
            exits: exits
                .filter(|(_, met)| !met.parts.is_empty())
                .map(|(exit, met)| branch(exit, met, (start_ns, span_ns), gap.names))
                .collect(),
            steal_ns: own_ns(&|share| share == Share::Steal),
            residual_ns: own_ns(&Share::is_residual),
        };
        Branches {
            stretches: vec![whole],
            residual: gap.residual,
            witnessed: gap.budget.witnessed,
        }
    }

    pub(super) fn of_wakeup(late: &ExplainedWakeup<'_>) -> Branches {
        let mut start_ns = late.wakeup.expiry_mono_ns;
        let phases = late.stretches.iter().filter_map(|stretch| {
            let span_ns = (start_ns, start_ns + stretch.dur_ns);
            start_ns = span_ns.1;
            (stretch.dur_ns > 0).then(|| phase(stretch, span_ns, late))
        });
        Branches {
            stretches: phases.collect(),
            residual: late.residual,
            witnessed: late.witnessed,
        }
    }

    pub(super) fn of(self, of: NamedInterval) -> Tree {
        Tree {
            of,
            stretches: self.stretches,
            residual: self.residual,
            witnessed: self.witnessed,
        }
    }
}

fn phase(stretch: &CutStretch, span_ns: (u64, u64), late: &ExplainedWakeup<'_>) -> Stretch {
    let expiry_ns = late.wakeup.expiry_mono_ns;
    let exits = late.exits[stretch.exits.clone()].iter().zip(&stretch.met);
    let exits = exits.filter(|(_, met)| !met.parts.is_empty());
    let exits = exits.map(|(exit, met)| {
        let mut branch = branch(exit, met, (expiry_ns, span_ns), late.names);
        branch.pieces.iter_mut().for_each(|it| rename(it, late));
        branch
    });
    Stretch {
        phase: stretch.phase,
        dur_ns: stretch.dur_ns,
        guest: late.names.parts(&stretch.own),
        exits: exits.collect(),
        steal_ns: stretch.steal_ns,
        residual_ns: stretch.residual_ns,
    }
}

/// Puts a piece under the share that the wake-up's parts have.
fn rename(piece: &mut NamedPiece, late: &ExplainedWakeup<'_>) {
    if piece.share.is_residual() {
        piece.share = late.residual;
    } else if piece.share == Share::Halted {
        piece.share = Share::Blocked;
        piece.name = late.overslept.map(|id| late.names.shared(id));
    }
}

/// One exit in a stretch of a gap or latency that began at `since_ns`.
fn branch(
    exit: &BelowExit,
    met: &Met,
    (since_ns, span_ns): (u64, (u64, u64)),
    names: &Names,
) -> ExitBranch {
    let mut parts = met.parts.clone();
    largest_first(&mut parts);
    ExitBranch {
        reason: names.name(Some(exit.reason)).to_string(),
        heavy: exit.heavy,
        exit_cpu: exit.exit_cpu,
        entry_cpu: exit.entry_cpu,
        after_ns: exit.start_mono_ns.saturating_sub(since_ns),
        dur_ns: parts.iter().map(|part| part.ns).sum(),
        parts: parts.iter().map(|part| names.part(part)).collect(),
        pieces: pieces(exit, span_ns, names),
    }
}

/// What of an exit lies between these instants, piece by piece.
fn pieces(exit: &BelowExit, (from_ns, until_ns): (u64, u64), names: &Names) -> Vec<NamedPiece> {
    let inside = exit.pieces.iter().map(|piece| NamedPiece {
        start_mono_ns: piece.start_mono_ns.max(from_ns),
        end_mono_ns: piece.end_mono_ns.min(until_ns),
        ..piece.named(names)
    });
    let inside = inside.filter(|piece| piece.start_mono_ns < piece.end_mono_ns);
    inside.collect()
}
