//! Running sums of the gaps of a join.

use vmnoise_events::MeasuringCommand;

use super::branches::Branches;
use super::culprits::Culprits;
use super::latency::JoinedLatencies;
use super::options::JoinOptions;
use super::pairs::Pairs;
use super::result::{HostSide, JoinedRun, JoinedTotals, ThesisSum};
use super::tree::JoinTree;
use crate::attribute::Explained;
use crate::longest::Longest;
use crate::summary::Summary;
use crate::worst::{self, Rank};

/// Sums over the gaps of a join, and the trees of the longest gaps.
#[derive(Debug)]
pub(super) struct JoinSums {
    above_ns: u64,
    totals: JoinedTotals,
    culprits: Culprits,
    trees: Longest<Rank, Branches>,
    thesis: ThesisSum,
}

impl JoinSums {
    pub(super) fn new(workload: MeasuringCommand, options: JoinOptions) -> JoinSums {
        JoinSums {
            above_ns: options.above_ns,
            totals: JoinedTotals::default(),
            culprits: Culprits::new(workload),
            trees: Longest::new(options.top),
            thesis: ThesisSum::default(),
        }
    }

    pub(super) fn see(&mut self, gap: &Explained<'_>) {
        let interval = gap.interval;
        let is_above = interval.dur_ns >= self.above_ns;
        let is_joined = interval.witnessed && !gap.exits.is_empty();
        let totals = &mut self.totals;
        totals.gaps += 1;
        totals.witnessed += u64::from(interval.witnessed);
        totals.witnessed_above += u64::from(interval.witnessed && is_above);
        totals.joined += u64::from(is_joined);
        totals.joined_above += u64::from(is_joined && is_above);
        if interval.witnessed {
            totals.witnessed_ns = totals.witnessed_ns.saturating_add(interval.dur_ns);
            let of_witnessed = &mut totals.witnessed_unexplained_ns;
            *of_witnessed = of_witnessed.saturating_add(interval.residual_ns());
            for whole in gap.stretches {
                let unsure_ns = match whole.is_sure {
                    true => whole.unsure_ns(),
                    false => whole.dur_ns,
                };
                let exits = whole
                    .overlaps
                    .iter()
                    .filter(|overlap| overlap.unsure_ns > 0)
                    .count() as u64;
                totals.unsure.add(whole.is_sure, exits, unsure_ns);
            }
        }
        if is_joined {
            totals.joined_ns = totals.joined_ns.saturating_add(interval.dur_ns);
            totals.unexplained_ns = totals.unexplained_ns.saturating_add(interval.residual_ns());
        }
        let unbounded_ns = &mut totals.unbounded_kvm_ns;
        let of_gap_ns = interval.gap().map_or(0, |gap| gap.unbounded_kvm_ns);
        *unbounded_ns = unbounded_ns.saturating_add(of_gap_ns);
        let overlaps = gap.stretches.iter().flat_map(|whole| &whole.overlaps);
        for (exit, _) in gap
            .exits
            .iter()
            .zip(overlaps)
            .filter(|(_, overlap)| overlap.first)
        {
            totals.exits += 1;
            if let Some(thesis_ns) = exit.reported.thesis_ns {
                let ours_ns = exit.reported.dur_ns - exit.reported.surplus_ns;
                let sum = &mut self.thesis;
                sum.exits += 1;
                sum.length_ns = sum.length_ns.saturating_add(exit.reported.dur_ns);
                sum.thesis_ns = sum.thesis_ns.saturating_add(thesis_ns);
                sum.ours_ns = sum.ours_ns.saturating_add(ours_ns);
            }
        }
        if is_above {
            self.culprits.see(gap);
        }
        self.trees.see(worst::rank(interval), || Branches::new(gap));
    }

    /// Returns the result. `summary.worst` lists the same gaps as the trees, in the same order.
    pub(super) fn summarize(
        self,
        summary: Summary,
        latencies: Option<JoinedLatencies>,
        pairs: &Pairs,
        host: HostSide,
    ) -> JoinedRun {
        let trees = summary.worst.iter().cloned().zip(self.trees.into_vec());
        let trees: Vec<JoinTree> = trees.map(|(gap, tree)| tree.of(gap)).collect();
        JoinedRun {
            pairs: pairs.pairs().to_vec(),
            pairing: pairs.pairing().clone(),
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
