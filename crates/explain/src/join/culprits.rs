//! Ranks who took the time of the gaps, or of the latencies, of a run.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use vmnoise_events::{Share, Workload};

use super::branch::{Culprit, Side};
use crate::attribute::Explained;
use crate::names::Names;
use crate::percent::percent;

/// Who, where, and under which share.
pub(super) type Who = (Side, Share, Option<Arc<str>>, Option<u32>);

/// Sums by whoever took time. Memory follows how many those are.
#[derive(Debug)]
pub(super) struct Culprits {
    workload: Workload,
    taken: HashMap<Who, Taken>,
    gaps_ns: u128,
    /// Of the gap at hand.
    parts: Vec<(Who, u64)>,
}

#[derive(Debug, Default)]
struct Taken {
    gaps: u64,
    total_ns: u64,
    max_ns: u64,
}

impl Culprits {
    pub(super) fn new(workload: Workload) -> Culprits {
        Culprits {
            workload,
            taken: HashMap::new(),
            gaps_ns: 0,
            parts: Vec::new(),
        }
    }

    pub(super) fn see(&mut self, gap: &Explained<'_>) {
        let name = |names: &Names, source: Option<_>| source.map(|id| names.shared(id));
        let workload = self.workload;
        let own = gap.own.iter().map(|part| {
            let (side, cpu) = match (part.share, workload) {
                (share, _) if share.is_residual() => (Side::Unknown, None),
                (Share::Steal, _) => (Side::Host, None),
                // The activities around a microVM are its host's.
                (_, Workload::Microvm) => (Side::Host, Some(gap.budget.cpu)),
                _ => (Side::Guest, Some(gap.budget.cpu)),
            };
            let source = part.source.filter(|_| side != Side::Unknown);
            ((side, part.share, name(gap.names, source), cpu), part.ns)
        });
        let met = gap.met.iter().flat_map(|met| &met.parts);
        let met = met.map(|part| {
            let side = match part.share.is_residual() {
                true => Side::Unknown,
                false => Side::Host,
            };
            let source = name(gap.names, part.source);
            ((side, part.share, source, part.host_cpu), part.ns)
        });
        self.count(gap.budget.dur_ns, own.chain(met));
    }

    /// Takes one gap or latency of this length, whose parts add up to it.
    pub(super) fn count(&mut self, dur_ns: u64, of_it: impl Iterator<Item = (Who, u64)>) {
        self.gaps_ns += u128::from(dur_ns);
        let Self { parts, taken, .. } = self;
        parts.clear();
        parts.extend(of_it);
        parts.sort_unstable();
        for parts in parts.chunk_by(|(a, _), (b, _)| a == b) {
            let ns: u64 = parts.iter().map(|(_, ns)| ns).sum();
            let taken = taken.entry(parts[0].0.clone()).or_default();
            taken.gaps += 1;
            taken.total_ns = taken.total_ns.saturating_add(ns);
            taken.max_ns = taken.max_ns.max(ns);
        }
    }

    /// Who took most comes first.
    pub(super) fn ranked(self) -> Vec<Culprit> {
        let mut taken: Vec<(Who, Taken)> = self.taken.into_iter().collect();
        taken.sort_by(|(who, a), (other, b)| {
            (Reverse(a.total_ns), who).cmp(&(Reverse(b.total_ns), other))
        });
        let culprits = taken
            .into_iter()
            .map(|((side, share, name, cpu), taken)| Culprit {
                side,
                share,
                name: name.map(|name| name.to_string()).map(Into::into),
                cpu,
                gaps: taken.gaps,
                total_ns: taken.total_ns,
                max_ns: taken.max_ns,
                percent: percent(taken.total_ns.into(), self.gaps_ns).unwrap_or_default(),
            });
        culprits.collect()
    }
}
