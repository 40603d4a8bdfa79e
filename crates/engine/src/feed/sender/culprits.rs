//! Sums, for each vCPU, the time that each culprit took so far. Memory per vCPU is bounded, even if
//! the host runs many tasks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use vmnoise_events::{HostCulprit, Share, SourceId, VcpuId};
use vmnoise_explain::ExitBudget;
use vmnoise_feed::MAX_CULPRITS;

/// Largest number of culprits kept per vCPU. This is far above the number reported, so that a
/// culprit that starts late can still reach the top.
const KEPT: usize = 16 * MAX_CULPRITS;

/// Time that each culprit took, in ns, by vCPU.
#[derive(Debug, Default)]
pub struct Culprits(BTreeMap<VcpuId, HashMap<(Share, SourceId), u64>>);

impl Culprits {
    /// Adds the parts of one exit whose culprit is known.
    pub fn add(&mut self, budget: &ExitBudget) {
        for part in &budget.parts {
            if let Some(source) = part.source {
                self.sum(budget.vcpu, part.share, source, part.ns);
            }
        }
    }

    fn sum(&mut self, vcpu: VcpuId, share: Share, source: SourceId, ns: u64) {
        let sums = self.0.entry(vcpu).or_default();
        if sums.len() == KEPT && !sums.contains_key(&(share, source)) {
            let mut all: Vec<u64> = sums.values().copied().collect();
            let (_, median_ns, _) = all.select_nth_unstable(KEPT / 2);
            let median_ns = *median_ns;
            sums.retain(|_, ns| *ns > median_ns);
        }
        *sums.entry((share, source)).or_default() += ns;
    }

    /// Returns the culprits that took the most time from this vCPU, in descending order.
    pub fn of<'a>(&self, vcpu: VcpuId, name: impl Fn(SourceId) -> &'a str) -> Vec<HostCulprit> {
        let mut sums: Vec<(&(Share, SourceId), &u64)> =
            self.0.get(&vcpu).into_iter().flatten().collect();
        sums.sort_by_key(|&(who, ns)| (Reverse(*ns), *who));
        let reported = sums.into_iter().take(MAX_CULPRITS);
        reported
            .map(|(&(share, source), &dur_ns)| HostCulprit {
                share,
                name: name(source).into(),
                dur_ns,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_expensive_come_first_and_each_vcpu_has_its_own() {
        let mut culprits = Culprits::default();
        culprits.sum(VcpuId(0), Share::Preempted, SourceId(1), 5);
        culprits.sum(VcpuId(0), Share::HostIrq, SourceId(2), 7);
        culprits.sum(VcpuId(0), Share::Preempted, SourceId(1), 4);
        culprits.sum(VcpuId(1), Share::Preempted, SourceId(3), 100);
        let reported = culprits.of(VcpuId(0), |id| {
            ["", "stress:1", "timer:2", "no"][id.0 as usize]
        });
        let reported: Vec<_> = reported
            .iter()
            .map(|it| (it.name.as_str(), it.dur_ns))
            .collect();
        assert_eq!(reported, [("stress:1", 9), ("timer:2", 7)]);
        assert_eq!(culprits.of(VcpuId(2), |_| ""), []);
    }

    #[test]
    fn a_host_of_many_tasks_costs_no_more_memory() {
        let mut culprits = Culprits::default();
        culprits.sum(VcpuId(0), Share::Preempted, SourceId(0), 1_000_000);
        for task in 1..100_000 {
            culprits.sum(VcpuId(0), Share::Preempted, SourceId(task), 10);
        }
        assert!(culprits.0[&VcpuId(0)].len() <= KEPT);
        assert_eq!(culprits.of(VcpuId(0), |_| "it")[0].dur_ns, 1_000_000);
    }
}
