//! Ranks the culprits that took time from a run's gaps or latencies.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use vmnoise_events::{MeasuringCommand, Share};

use super::branch::{GuestCulprit, VmSide};
use crate::attribute::Explained;
use crate::percent::percent;

/// Side, share, name and CPU of a culprit.
type Who = (VmSide, Share, Option<Arc<str>>, Option<u32>);

/// Sums of time by culprit. Memory grows with the number of culprits.
#[derive(Debug)]
pub(super) struct Culprits {
    workload: MeasuringCommand,
    taken: HashMap<Who, Taken>,
    intervals_ns: u128,
    /// Parts of the gap or latency that is being added.
    parts: Vec<(Who, u64)>,
}

#[derive(Debug, Default)]
struct Taken {
    gaps: u64,
    total_ns: u64,
    max_ns: u64,
}

impl Culprits {
    pub(super) fn new(workload: MeasuringCommand) -> Culprits {
        Culprits {
            workload,
            taken: HashMap::new(),
            intervals_ns: 0,
            parts: Vec::new(),
        }
    }

    /// Adds one gap or latency. The parts of all segments add up to the length of the gap or
    /// latency.
    pub(super) fn see(&mut self, explained: &Explained<'_>) {
        self.intervals_ns += u128::from(explained.interval.dur_ns);
        let cpu = Some(explained.interval.cpu);
        let name = |source: Option<_>| source.map(|id| explained.names.shared(id));
        // The activities around a microVM belong to its host.
        let own_side = match self.workload {
            MeasuringCommand::Microvm => VmSide::Host,
            _ => VmSide::Guest,
        };
        self.parts.clear();
        for stretch in explained.stretches {
            let own = stretch.own.iter();
            let own = own.map(|it| ((own_side, it.share, name(it.source), cpu), it.ns));
            let overlaps = stretch
                .overlaps
                .iter()
                .flat_map(|overlap| &overlap.parts)
                .map(|part| {
                    let side = match part.share.is_residual() {
                        true => VmSide::Unknown,
                        false => VmSide::Host,
                    };
                    let who = (side, part.share, name(part.source), part.host_cpu);
                    (who, part.ns)
                });
            let rest = [
                (VmSide::Host, Share::Steal, stretch.steal_ns),
                (VmSide::Unknown, explained.residual, stretch.residual_ns),
            ];
            let rest = rest.map(|(side, share, ns)| ((side, share, None, None), ns));
            let parts = own.chain(overlaps).chain(rest);
            self.parts.extend(parts.filter(|(_, ns)| *ns > 0));
        }
        self.parts.sort_unstable();
        for parts in self.parts.chunk_by(|(a, _), (b, _)| a == b) {
            let ns: u64 = parts.iter().map(|(_, ns)| ns).sum();
            let taken = self.taken.entry(parts[0].0.clone()).or_default();
            taken.gaps += 1;
            taken.total_ns = taken.total_ns.saturating_add(ns);
            taken.max_ns = taken.max_ns.max(ns);
        }
    }

    /// Returns the culprits, the largest total first.
    pub(super) fn ranked(self) -> Vec<GuestCulprit> {
        let mut taken: Vec<(Who, Taken)> = self.taken.into_iter().collect();
        taken.sort_by(|(who, a), (other, b)| {
            (Reverse(a.total_ns), who).cmp(&(Reverse(b.total_ns), other))
        });
        let culprits = taken
            .into_iter()
            .map(|((side, share, name, cpu), taken)| GuestCulprit {
                side,
                share,
                name: name.map(|name| name.to_string()).map(Into::into),
                cpu,
                gaps: taken.gaps,
                total_ns: taken.total_ns,
                max_ns: taken.max_ns,
                percent: percent(taken.total_ns.into(), self.intervals_ns).unwrap_or_default(),
            });
        culprits.collect()
    }
}
