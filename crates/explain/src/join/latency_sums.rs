//! What the wake-ups of a join come to, one after the other.

use std::collections::BTreeMap;

use vmnoise_events::{Share, ShareMap, Workload};

use super::branch::Side;
use super::culprits::{Culprits, Who};
use super::latency::{
    ContextSides, CpuSides, JoinedLatencies, LatencyTotals, LatencyTree, PhaseSides,
};
use super::latency_tree::LatencyBranches;
use super::options::JoinOptions;
use crate::longest::Longest;
use crate::sight::Sight;
use crate::wakeups::{CutStretch, ExplainedWakeup, Phase, WakeupRank, Wakeups, rank};

/// The contexts, and the phase that each ends with.
const CONTEXTS: [(&str, Phase); 3] = [
    ("irq", Phase::Irq),
    ("thread", Phase::Wakeup),
    ("user", Phase::Return),
];

/// Sums over wake-ups, and the latest of them.
#[derive(Debug)]
pub(super) struct LatencySums {
    above_ns: u64,
    totals: LatencyTotals,
    cpus: BTreeMap<u32, CpuSums>,
    culprits: Culprits,
    trees: Longest<WakeupRank, LatencyBranches>,
}

/// Of one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct CpuSums {
    contexts: [Sides; 3],
    phases: [PhaseSides; 6],
}

/// Of one context on one CPU.
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
            culprits: Culprits::new(Workload::Timer),
            trees: Longest::new(options.top),
        }
    }

    pub(super) fn see(&mut self, late: &ExplainedWakeup<'_>) {
        let latency_ns = late.wakeup.latency_ns;
        let is_above = latency_ns >= self.above_ns;
        self.count(late, is_above);
        let CpuSums { contexts, phases } = self.cpus.entry(late.wakeup.cpu).or_default();
        for stretch in late.stretches {
            let place = stretch
                .phase
                .map_or(Phase::ALL.len(), |phase| phase as usize);
            let (sum, of_it) = (&mut phases[place], sides(stretch, late));
            sum.guest_ns += of_it.guest_ns;
            sum.host_ns += of_it.host_ns;
            sum.unknown_ns += of_it.unknown_ns;
        }
        let ends = [late.wakeup.irq_ns, late.wakeup.thread_ns, Some(latency_ns)];
        for ((sides, (_, end)), until) in contexts.iter_mut().zip(CONTEXTS).zip(ends) {
            if until.is_some() {
                sides.count += 1;
                let stretches = late.stretches.iter();
                let before = stretches.filter(|stretch| stretch.until <= Some(end));
                before.for_each(|stretch| sides.add(stretch, late));
            }
        }
        if is_above {
            self.culprits.count(latency_ns, parts(late));
        }
        self.trees
            .see(rank(late.wakeup), || LatencyBranches::new(late));
    }

    fn count(&mut self, late: &ExplainedWakeup<'_>, is_above: bool) {
        let is_joined = late.witnessed && !late.exits.is_empty();
        let totals = &mut self.totals;
        totals.wakeups += 1;
        totals.witnessed += u64::from(late.witnessed);
        totals.witnessed_above += u64::from(late.witnessed && is_above);
        totals.joined += u64::from(is_joined);
        totals.joined_above += u64::from(is_joined && is_above);
        totals.latency_ns = totals.latency_ns.saturating_add(late.wakeup.latency_ns);
        let of_residual = late.wakeup.parts.iter().filter(|it| it.share.is_residual());
        let residual_ns: u64 = of_residual.map(|part| part.ns).sum();
        totals.unexplained_ns = totals.unexplained_ns.saturating_add(residual_ns);
        for stretch in late.stretches {
            if late.witnessed && stretch.dur_ns > 0 {
                let exits = stretch.met.iter().filter(|met| met.unsure_ns > 0).count() as u64;
                let unsure_ns = match stretch.is_sure {
                    true => stretch.unsure_ns,
                    false => stretch.dur_ns,
                };
                totals.unsure.add(stretch.is_sure, exits, unsure_ns);
            }
            let exits = late.exits[stretch.exits.clone()].iter().zip(&stretch.met);
            for (exit, met) in exits {
                totals.exits += u64::from(met.first);
                let unbounded_ns = &mut totals.unbounded_kvm_ns;
                *unbounded_ns = unbounded_ns.saturating_add(met.unbounded_kvm_ns(exit));
            }
        }
    }

    /// The result, with the guest's own, whose latest wake-ups are the same.
    pub(super) fn conclude(self, wakeups: &Wakeups, sight: &Sight) -> JoinedLatencies {
        let is_told = self.totals.witnessed > 0;
        let cpus = self.cpus.into_iter().map(|(cpu, sums)| CpuSides {
            cpu,
            contexts: std::array::from_fn(|place| {
                sums.contexts[place].told(CONTEXTS[place].0, sight, is_told)
            }),
            phases: sums.phases,
        });
        let trees = wakeups.worst.iter().cloned().zip(self.trees.into_vec());
        let trees: Vec<LatencyTree> = trees.map(|(wakeup, tree)| tree.of(wakeup)).collect();
        JoinedLatencies {
            joined: self.totals,
            cpus: cpus.collect(),
            culprits: self.culprits.ranked(),
            trees,
        }
    }
}

impl Sides {
    fn add(&mut self, stretch: &CutStretch, late: &ExplainedWakeup<'_>) {
        let of_it = sides(stretch, late);
        self.guest_ns += of_it.guest_ns;
        self.host_ns += of_it.host_ns;
        self.unknown_ns += of_it.unknown_ns;
        for part in &stretch.own {
            self.shares_ns[part.share] += part.ns;
        }
        for part in stretch.met.iter().flat_map(|met| &met.parts) {
            self.shares_ns[part.share] += part.ns;
        }
        self.shares_ns[Share::Steal] += stretch.steal_ns;
        self.shares_ns[late.residual] += stretch.residual_ns;
    }

    fn told(&self, context: &'static str, sight: &Sight, is_told: bool) -> ContextSides {
        ContextSides {
            context,
            count: self.count,
            total_ns: self.guest_ns + self.host_ns + self.unknown_ns,
            guest_ns: self.guest_ns,
            host_ns: self.host_ns,
            unknown_ns: self.unknown_ns,
            shares_ns: sight.known(&self.shares_ns, is_told),
        }
    }
}

/// Which side had a stretch.
fn sides(stretch: &CutStretch, late: &ExplainedWakeup<'_>) -> PhaseSides {
    let own_ns: u64 = stretch.own.iter().map(|part| part.ns).sum();
    let (left_to_guest_ns, unknown_ns) = match late.tells_exits {
        true => (stretch.residual_ns - stretch.unsure_ns, stretch.unsure_ns),
        false => (0, stretch.residual_ns),
    };
    PhaseSides {
        guest_ns: own_ns + left_to_guest_ns,
        host_ns: stretch.met_ns() + stretch.steal_ns,
        unknown_ns,
    }
}

/// Who had it, piece by piece.
fn parts<'a>(late: &'a ExplainedWakeup<'a>) -> impl Iterator<Item = (Who, u64)> + 'a {
    let name = |source: Option<_>| source.map(|id| late.names.shared(id));
    let cpu = late.wakeup.cpu;
    late.stretches.iter().flat_map(move |stretch| {
        let own = stretch.own.iter().map(move |part| {
            let who = (Side::Guest, part.share, name(part.source), Some(cpu));
            (who, part.ns)
        });
        let met = stretch.met.iter().flat_map(|met| &met.parts);
        let met = met.map(move |part| {
            let side = match part.share.is_residual() {
                true => Side::Unknown,
                false => Side::Host,
            };
            ((side, part.share, name(part.source), part.cpu), part.ns)
        });
        let rest = [
            (Side::Host, Share::Steal, stretch.steal_ns),
            (Side::Unknown, late.residual, stretch.residual_ns),
        ];
        let rest = rest.map(|(side, share, ns)| ((side, share, None, None), ns));
        own.chain(met).chain(rest).filter(|(_, ns)| *ns > 0)
    })
}
