//! Sums over the exits that were told one by one, and what KVM had of each beyond its usual part.

use std::collections::HashMap;

use vmnoise_events::{ExitReason, VcpuTotals};

use super::budget::ExitBudget;
use crate::usual_kvm::{Held, UsualKvm};

/// Of all exits that were explained; times in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) told: u64,
    pub(super) clamped_ns: u64,
    pub(super) unnamed_ns: u64,
    /// `None` until an exit tells what KVM had of it.
    pub(super) held: Option<Held>,
    usual_kvm: UsualKvm,
    /// Dense indices of reasons.
    reasons: HashMap<ExitReason, usize>,
}

impl Sums {
    /// Takes the next exit, and says what is to be said of KVM's part; `knows_kvm` is whether that
    /// is known.
    pub(super) fn add(&mut self, budget: &ExitBudget, knows_kvm: bool) -> Held {
        self.told += 1;
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

/// What totals may be off by, beside what they are: an exit may be counted while they are read.
const TORN_NS: u64 = 1_000_000_000;

/// Whether these sums can be true: a vCPU was not in its exits for longer than it was there.
pub(super) fn may_be(totals: &VcpuTotals) -> bool {
    let span_ns = totals.last_mono_ns.saturating_sub(totals.first_mono_ns);
    let most_ns = u128::from(span_ns) * 2 + u128::from(TORN_NS);
    let of_all = u128::from(totals.split.total());
    let reasons = totals.reasons.iter();
    let of_reasons: u128 = reasons.map(|it| u128::from(it.split.total())).sum();
    // A sum that is no u64 stands at its end.
    let is_whole = totals.split.total() < u64::MAX;
    is_whole && of_all.max(of_reasons) <= most_ns
}

fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}
