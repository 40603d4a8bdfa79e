//! What the gaps of a join come to, one after the other.

use vmnoise_events::Workload;

use super::culprits::Culprits;
use super::joiner::JoinOptions;
use super::latency::JoinedLatencies;
use super::result::{GapTree, HostSide, JoinedRun, JoinedTotals, Pair, ThesisSum};
use super::tree::Branches;
use crate::attribute::Explained;
use crate::longest::Longest;
use crate::summary::Summary;
use crate::worst::{self, Rank};

/// Sums over gaps, and the longest of them.
#[derive(Debug)]
pub(super) struct JoinSums {
    above_ns: u64,
    totals: JoinedTotals,
    culprits: Culprits,
    trees: Longest<Rank, Branches>,
    thesis: ThesisSum,
}

impl JoinSums {
    pub(super) fn new(workload: Workload, options: JoinOptions) -> JoinSums {
        JoinSums {
            above_ns: options.above_ns,
            totals: JoinedTotals::default(),
            culprits: Culprits::new(workload),
            trees: Longest::new(options.top),
            thesis: ThesisSum::default(),
        }
    }

    pub(super) fn see(&mut self, gap: &Explained<'_>) {
        let budget = gap.budget;
        let is_above = budget.dur_ns >= self.above_ns;
        let is_joined = budget.witnessed && !gap.exits.is_empty();
        let totals = &mut self.totals;
        totals.gaps += 1;
        totals.witnessed += u64::from(budget.witnessed);
        totals.witnessed_above += u64::from(budget.witnessed && is_above);
        totals.joined += u64::from(is_joined);
        totals.joined_above += u64::from(is_joined && is_above);
        if is_joined {
            totals.joined_ns = totals.joined_ns.saturating_add(budget.dur_ns);
            totals.unexplained_ns = totals.unexplained_ns.saturating_add(budget.residual_ns());
        }
        for (exit, _) in gap.exits.iter().zip(gap.met).filter(|(_, met)| met.first) {
            totals.exits += 1;
            let unbounded_ns = &mut totals.unbounded_kvm_ns;
            *unbounded_ns = unbounded_ns.saturating_add(exit.told.unbounded_kvm_ns);
            if let Some(thesis_ns) = exit.told.thesis_ns {
                let ours_ns = exit.told.dur_ns - exit.told.surplus_ns;
                let sum = &mut self.thesis;
                sum.exits += 1;
                sum.length_ns = sum.length_ns.saturating_add(exit.told.dur_ns);
                sum.thesis_ns = sum.thesis_ns.saturating_add(thesis_ns);
                sum.ours_ns = sum.ours_ns.saturating_add(ours_ns);
            }
        }
        if is_above {
            self.culprits.see(gap);
        }
        self.trees.see(worst::rank(budget), || Branches::new(gap));
    }

    /// The result, with the guest's summary, whose longest gaps are the same.
    pub(super) fn conclude(
        self,
        summary: Summary,
        latencies: Option<JoinedLatencies>,
        pairs: Vec<Pair>,
        host: HostSide,
    ) -> JoinedRun {
        let trees = summary.worst.iter().cloned().zip(self.trees.into_vec());
        let trees: Vec<GapTree> = trees.map(|(gap, tree)| tree.of(gap)).collect();
        JoinedRun {
            pairs,
            joined: self.totals,
            above_ns: self.above_ns,
            culprits: self.culprits.ranked(),
            trees,
            thesis: (self.thesis.exits > 0).then_some(self.thesis),
            latencies,
            host,
            summary,
        }
    }
}
