//! Running sums of the wake-ups of a join.

use std::collections::BTreeMap;

use vmnoise_events::{MeasuringCommand, Share, ShareMap};

use super::branches::Branches;
use super::culprits::Culprits;
use super::latency::{ContextSides, CpuSides, JoinedLatencies, LatencyTotals, PhaseSides};
use super::options::JoinOptions;
use super::tree::JoinTree;
use crate::attribute::{CutStretch, Explained};
use crate::longest::Longest;
use crate::phase::Phase;
use crate::visibility::Visibility;
use crate::wakeups::WakeupSummary;
use crate::worst::{Rank, rank};

/// Contexts, each with the phase that ends it.
const CONTEXTS: [(&str, Phase); 3] = [
    ("irq", Phase::Irq),
    ("thread", Phase::Wakeup),
    ("user", Phase::Return),
];

/// Sums over wake-ups, and the trees of the wake-ups with the longest latencies.
#[derive(Debug)]
pub(super) struct LatencySums {
    above_ns: u64,
    totals: LatencyTotals,
    cpus: BTreeMap<u32, CpuSums>,
    culprits: Culprits,
    trees: Longest<Rank, Branches>,
}

/// Sums of one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct CpuSums {
    contexts: [Sides; 3],
    phases: [PhaseSides; 6],
}

/// Sums of one context on one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Sides {
    count: u64,
    guest_ns: u64,
    host_ns: u64,
    unknown_ns: u64,
    shares_ns: ShareMap<u64>,
}

impl LatencySums {
    pub(super) fn new(options: JoinOptions) -> LatencySums {
        LatencySums {
            above_ns: options.above_ns,
            totals: LatencyTotals::default(),
            cpus: BTreeMap::new(),
            culprits: Culprits::new(MeasuringCommand::Timerlat),
            trees: Longest::new(options.top),
        }
    }

    pub(super) fn see(&mut self, late: &Explained<'_>) {
        let latency_ns = late.interval.dur_ns;
        let is_above = latency_ns >= self.above_ns;
        self.count(late, is_above);
        let CpuSums { contexts, phases } = self.cpus.entry(late.interval.cpu).or_default();
        for stretch in late.stretches {
            let place = stretch
                .phase
                .map_or(Phase::ALL.len(), |phase| phase as usize);
            let (sum, of_it) = (&mut phases[place], sides(stretch, late));
            sum.guest_ns += of_it.guest_ns;
            sum.host_ns += of_it.host_ns;
            sum.unknown_ns += of_it.unknown_ns;
        }
        let ends = late.interval.latencies_ns();
        for ((sides, (_, end)), until) in contexts.iter_mut().zip(CONTEXTS).zip(ends) {
            if until.is_some() {
                sides.count += 1;
                let stretches = late.stretches.iter();
                let before = stretches.filter(|stretch| stretch.until <= Some(end));
                before.for_each(|stretch| sides.add(stretch, late));
            }
        }
        if is_above {
            self.culprits.see(late);
        }
        self.trees.see(rank(late.interval), || Branches::new(late));
    }

    fn count(&mut self, late: &Explained<'_>, is_above: bool) {
        let is_joined = late.interval.witnessed && !late.exits.is_empty();
        let totals = &mut self.totals;
        totals.wakeups += 1;
        totals.witnessed += u64::from(late.interval.witnessed);
        totals.witnessed_above += u64::from(late.interval.witnessed && is_above);
        totals.joined += u64::from(is_joined);
        totals.joined_above += u64::from(is_joined && is_above);
        totals.latency_ns = totals.latency_ns.saturating_add(late.interval.dur_ns);
        let residual_ns = late.interval.residual_ns();
        totals.unexplained_ns = totals.unexplained_ns.saturating_add(residual_ns);
        for stretch in late.stretches {
            if late.interval.witnessed && stretch.dur_ns > 0 {
                let exits = stretch
                    .overlaps
                    .iter()
                    .filter(|overlap| overlap.unsure_ns > 0)
                    .count() as u64;
                let unsure_ns = match stretch.is_sure {
                    true => unsure_ns(stretch),
                    false => stretch.dur_ns,
                };
                totals.unsure.add(stretch.is_sure, exits, unsure_ns);
            }
            let exits = late.exits[stretch.exits.clone()]
                .iter()
                .zip(&stretch.overlaps);
            for (exit, overlap) in exits {
                totals.exits += u64::from(overlap.first);
                let unbounded_ns = &mut totals.unbounded_kvm_ns;
                *unbounded_ns = unbounded_ns.saturating_add(overlap.unbounded_kvm_ns(exit));
            }
        }
    }

    /// Returns the result. `wakeups.worst` lists the same wake-ups as the trees, in the same order.
    pub(super) fn summarize(
        self,
        wakeups: &WakeupSummary,
        visibility: &Visibility,
    ) -> JoinedLatencies {
        let is_reported = self.totals.witnessed > 0;
        let cpus = self.cpus.into_iter().map(|(cpu, sums)| CpuSides {
            cpu,
            contexts: std::array::from_fn(|place| {
                sums.contexts[place].reported(CONTEXTS[place].0, visibility, is_reported)
            }),
            phases: sums.phases,
        });
        let trees = wakeups.worst.iter().cloned().zip(self.trees.into_vec());
        let trees: Vec<JoinTree> = trees.map(|(wakeup, tree)| tree.of(wakeup)).collect();
        JoinedLatencies {
            joined: self.totals,
            cpus: cpus.collect(),
            culprits: self.culprits.ranked(),
            trees,
        }
    }
}

impl Sides {
    fn add(&mut self, stretch: &CutStretch, late: &Explained<'_>) {
        let of_it = sides(stretch, late);
        self.guest_ns += of_it.guest_ns;
        self.host_ns += of_it.host_ns;
        self.unknown_ns += of_it.unknown_ns;
        for part in &stretch.own {
            self.shares_ns[part.share] += part.ns;
        }
        for part in stretch.overlaps.iter().flat_map(|overlap| &overlap.parts) {
            self.shares_ns[part.share] += part.ns;
        }
        self.shares_ns[Share::Steal] += stretch.steal_ns;
        self.shares_ns[late.residual] += stretch.residual_ns;
    }

    fn reported(
        &self,
        context: &'static str,
        visibility: &Visibility,
        is_reported: bool,
    ) -> ContextSides {
        ContextSides {
            context,
            count: self.count,
            total_ns: self.guest_ns + self.host_ns + self.unknown_ns,
            guest_ns: self.guest_ns,
            host_ns: self.host_ns,
            unknown_ns: self.unknown_ns,
            shares_ns: visibility.known(&self.shares_ns, is_reported),
        }
    }
}

/// Returns the time of each side in a segment.
fn sides(stretch: &CutStretch, late: &Explained<'_>) -> PhaseSides {
    let own_ns: u64 = stretch.own.iter().map(|part| part.ns).sum();
    let (left_to_guest_ns, unknown_ns) = match late.reports_exits {
        true => {
            let unsure_ns = unsure_ns(stretch);
            (stretch.residual_ns - unsure_ns, unsure_ns)
        }
        false => (0, stretch.residual_ns),
    };
    PhaseSides {
        guest_ns: own_ns + left_to_guest_ns,
        host_ns: stretch.met_ns() + stretch.steal_ns,
        unknown_ns,
    }
}

/// Returns the part of the residual whose side the clock error hides.
fn unsure_ns(stretch: &CutStretch) -> u64 {
    match stretch.is_sure {
        true => stretch.unsure_ns().min(stretch.residual_ns),
        false => stretch.residual_ns,
    }
}
