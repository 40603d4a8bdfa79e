//! Sums over the exits that were explained one by one, and KVM's time above its usual time.

use std::collections::HashMap;

use vmnoise_events::{ExitReason, ReasonTotals, VcpuTotals};

use super::budget::ExitBudget;
use crate::usual_kvm::{Held, UsualKvm};

/// Sums over all explained exits; times in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) reported: u64,
    pub(super) clamped_ns: u64,
    pub(super) unnamed_ns: u64,
    /// KVM's time above its usual time; `None` until an exit shows KVM's part.
    pub(super) held: Option<Held>,
    usual_kvm: UsualKvm,
    /// Dense index of each reason.
    reasons: HashMap<ExitReason, usize>,
}

impl Sums {
    /// Adds the next exit, and returns KVM's time in it above the usual time. `knows_kvm` is true
    /// if KVM's part is known.
    pub(super) fn add(&mut self, budget: &ExitBudget, knows_kvm: bool) -> Held {
        self.reported += 1;
        add(&mut self.clamped_ns, budget.clamped_ns);
        add(&mut self.unnamed_ns, budget.unnamed_ns());
        if !knows_kvm {
            return Held::default();
        }
        let next = self.reasons.len();
        let reason = *self.reasons.entry(budget.exit.reason).or_insert(next);
        let part = budget.kvm_part(reason);
        let held = self.usual_kvm.judge(part);
        self.usual_kvm.learn(part);
        let sums = self.held.get_or_insert_default();
        add(&mut sums.surplus_ns, held.surplus_ns);
        add(&mut sums.unbounded_ns, held.unbounded_ns);
        held
    }
}

/// Tolerance for totals, because an exit may be counted while the totals are read.
const TORN_NS: u64 = 1_000_000_000;

/// Returns an upper bound of every sum over these totals, in nanoseconds or as a number of exits.
/// Returns `None` if the totals are inconsistent: a vCPU cannot be in exits for longer than its own
/// span, and every exit takes time.
pub(super) fn most(totals: &VcpuTotals) -> Option<u64> {
    let span_ns = totals.last_mono_ns.saturating_sub(totals.first_mono_ns);
    let possible = u128::from(span_ns) * 2 + u128::from(TORN_NS);
    let sum = |of: fn(&ReasonTotals) -> u128| totals.reasons.iter().map(of).sum::<u128>();
    let found = [
        u128::from(totals.split.total()) + u128::from(totals.unseen_ns),
        sum(|it| it.split.total().into()),
        sum(|it| it.count.into()),
        sum(|it| {
            it.histogram
                .iter()
                .map(|(_, count)| u128::from(*count))
                .sum()
        }),
        totals.exits.into(),
        totals.heavy.into(),
    ];
    let most = found.into_iter().max()?;
    let is_possible = most <= possible && most < u128::from(u64::MAX);
    is_possible
        .then(|| u64::try_from(most.max(span_ns.into())).ok())
        .flatten()
}

fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}
