//! One wake-up as a tree that names both sides, phase by phase.

use vmnoise_events::Share;

use super::latency::{LatencyTree, PhaseBranch};
use super::tree::branch;
use crate::budget::{Part, add_up, largest_first};
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
        let stretches = late.stretches.iter().filter(|stretch| stretch.dur_ns > 0);
        LatencyBranches {
            phases: stretches.map(|stretch| phase(stretch, late)).collect(),
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

fn phase(stretch: &CutStretch, late: &ExplainedWakeup<'_>) -> PhaseBranch {
    let own = stretch.own.iter().map(|part| Part {
        share: part.share,
        source: part.source,
        ns: part.ns,
        count: 1,
    });
    let mut own: Vec<Part> = own.collect();
    add_up(&mut own);
    largest_first(&mut own);
    let exits = late.exits[stretch.exits.clone()].iter().zip(&stretch.met);
    let exits = exits.filter(|(_, met)| !met.parts.is_empty());
    PhaseBranch {
        phase: stretch.phase,
        dur_ns: stretch.dur_ns,
        guest: late.names.parts(&own),
        exits: exits
            .map(|(exit, met)| branch(exit, met, late.wakeup.expiry_mono_ns, late.names))
            .collect(),
        steal_ns: stretch.steal_ns,
        residual_ns: stretch.residual_ns,
    }
}
