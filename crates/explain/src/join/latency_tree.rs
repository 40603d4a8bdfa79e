//! One wake-up as a tree that names both sides, phase by phase.

use vmnoise_events::Share;

use super::branch::ExitBranch;
use super::latency::{LatencyTree, PhaseBranch};
use super::tree::{branch, pieces as pieces_in};
use crate::below::BelowExit;
use crate::piece::NamedPiece;
use crate::wakeups::{CutStretch, ExplainedWakeup, WorstWakeup};

/// A [`LatencyTree`] without the wake-up.
#[derive(Debug)]
pub(super) struct LatencyBranches {
    phases: Vec<PhaseBranch>,
    residual: Share,
    witnessed: bool,
}

impl LatencyBranches {
    pub(super) fn new(late: &ExplainedWakeup<'_>) -> LatencyBranches {
        let mut start_ns = late.wakeup.expiry_mono_ns;
        let phases = late.stretches.iter().filter_map(|stretch| {
            let span_ns = (start_ns, start_ns + stretch.dur_ns);
            start_ns = span_ns.1;
            (stretch.dur_ns > 0).then(|| phase(stretch, span_ns, late))
        });
        LatencyBranches {
            phases: phases.collect(),
            residual: late.residual,
            witnessed: late.witnessed,
        }
    }

    pub(super) fn of(self, wakeup: WorstWakeup) -> LatencyTree {
        LatencyTree {
            wakeup,
            phases: self.phases,
            residual: self.residual,
            witnessed: self.witnessed,
        }
    }
}

fn phase(stretch: &CutStretch, span_ns: (u64, u64), late: &ExplainedWakeup<'_>) -> PhaseBranch {
    let expiry_ns = late.wakeup.expiry_mono_ns;
    let exits = late.exits[stretch.exits.clone()].iter().zip(&stretch.met);
    let exits = exits.filter(|(_, met)| !met.parts.is_empty());
    PhaseBranch {
        phase: stretch.phase,
        dur_ns: stretch.dur_ns,
        guest: late.names.parts(&stretch.own),
        exits: exits
            .map(|(exit, met)| ExitBranch {
                pieces: pieces(exit, span_ns, late),
                ..branch(exit, met, expiry_ns, late.names)
            })
            .collect(),
        steal_ns: stretch.steal_ns,
        residual_ns: stretch.residual_ns,
    }
}

/// What of an exit lies in a phase, piece by piece, under the shares of the wake-up's parts.
fn pieces(exit: &BelowExit, span_ns: (u64, u64), late: &ExplainedWakeup<'_>) -> Vec<NamedPiece> {
    let mut pieces = pieces_in(exit, span_ns, late.names);
    for piece in &mut pieces {
        if piece.share.is_residual() {
            piece.share = late.residual;
        } else if piece.share == Share::Halted {
            piece.share = Share::Blocked;
            piece.name = late.overslept.map(|id| late.names.shared(id));
        }
    }
    pieces
}
