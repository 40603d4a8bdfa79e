//! Sums of a VM at an instant, and their differences.

use std::collections::BTreeMap;

use vmnoise_tracer::WaitLengths;

use crate::ledger::{Lost, VmTotals};
use crate::who::Who;

/// Sums of one or several VMs. Times are in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) lost: Lost,
    pub(super) ran_ns: u64,
    pub(super) halted_ns: u64,
    pub(super) asleep_ns: u64,
    pub(super) waits: WaitLengths,
    /// Time in ns of each culprit with its own series. The rest of `lost.preempted` belongs to
    /// other culprits.
    pub(super) culprits: BTreeMap<Who, u64>,
}

impl Sums {
    pub(super) fn none() -> Sums {
        Sums {
            lost: Lost::default(),
            ran_ns: 0,
            halted_ns: 0,
            asleep_ns: 0,
            waits: WaitLengths::none(),
            culprits: BTreeMap::new(),
        }
    }

    pub(super) fn of(vm: &VmTotals) -> Sums {
        let culprits = vm.culprits.named();
        Sums {
            lost: vm.lost,
            ran_ns: vm.ran_ns,
            halted_ns: vm.halted_ns,
            asleep_ns: vm.asleep_ns,
            waits: vm.waits,
            culprits: culprits.map(|(who, ns)| (who.clone(), ns)).collect(),
        }
    }

    /// Returns the increase since `earlier`. If a culprit has less time than in `earlier`, it lost
    /// its series in between, and its time began again at 0.
    pub(super) fn since(&self, earlier: &Sums) -> Sums {
        let culprits = self.culprits.iter().map(|(who, &ns)| {
            let had = earlier.culprits.get(who).copied().unwrap_or_default();
            (who.clone(), ns.checked_sub(had).unwrap_or(ns))
        });
        Sums {
            lost: self.lost.since(&earlier.lost),
            ran_ns: self.ran_ns.saturating_sub(earlier.ran_ns),
            halted_ns: self.halted_ns.saturating_sub(earlier.halted_ns),
            asleep_ns: self.asleep_ns.saturating_sub(earlier.asleep_ns),
            waits: self.waits.since(&earlier.waits),
            culprits: culprits.filter(|(_, ns)| *ns > 0).collect(),
        }
    }

    pub(super) fn add(&mut self, more: &Sums) {
        self.lost.add(&more.lost);
        self.ran_ns += more.ran_ns;
        self.halted_ns += more.halted_ns;
        self.asleep_ns += more.asleep_ns;
        self.waits.add(&more.waits);
        for (who, ns) in &more.culprits {
            *self.culprits.entry(who.clone()).or_insert(0) += ns;
        }
    }

    /// Returns the preempted time of culprits without their own series, in ns.
    pub(super) fn others_ns(&self) -> u64 {
        let named: u64 = self.culprits.values().sum();
        self.lost.preempted.saturating_sub(named)
    }
}
