//! What KVM usually takes of an exit for a reason, learned from the exits in which others had
//! least part.

use vmnoise_events::{ExitSplit, Share};

use crate::plain_kvm::PlainKvm;
use crate::vcpus::ExitBudget;

/// Learns from every exit, and judges those in which others had part.
#[derive(Debug, Default)]
pub(super) struct UsualKvm {
    /// By exits that nobody else had part in.
    plain: PlainKvm,
    /// By exits that one interrupt had part in, and nobody else: an exit for an interrupt is
    /// never without.
    interrupted: PlainKvm,
}

/// What is to be said of KVM's part of an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is what others are held against.
    Standard,
    /// It has so much more than usual, in nanoseconds.
    Surplus(u64),
    /// Too few exits were seen to know what is usual.
    Unknown,
}

impl UsualKvm {
    /// Takes an exit whose reason has this dense index.
    pub(super) fn judge(&mut self, reason: usize, budget: &ExitBudget) -> Verdict {
        let exit = &budget.exit;
        let (heavy, kvm_ns) = (exit.heavy, exit.split.kvm);
        if !had_part(&exit.split, |_| true) {
            self.plain.record(reason, heavy, kvm_ns);
            return Verdict::Standard;
        }
        let by_plain = self.plain.p99_ns(reason, heavy);
        if is_of_one_interrupt(budget) {
            self.interrupted.record(reason, heavy, kvm_ns);
            if by_plain.is_none() {
                return Verdict::Standard;
            }
        }
        match by_plain.or_else(|| self.interrupted.p99_ns(reason, heavy)) {
            Some(p99_ns) => Verdict::Surplus(kvm_ns.saturating_sub(p99_ns)),
            None => Verdict::Unknown,
        }
    }
}

/// Whether anybody but KVM, the VMM and the guest's own wish had part in an exit, under one
/// of these shares.
fn had_part(split: &ExitSplit, of_these: impl Fn(Share) -> bool) -> bool {
    let own = |share| matches!(share, Share::Kvm | Share::Vmm | Share::Halted);
    let mut others = split.parts().into_iter().filter(|(share, _)| !own(*share));
    others.any(|(share, ns)| of_these(share) && ns > 0)
}

fn is_of_one_interrupt(budget: &ExitBudget) -> bool {
    let interrupts = budget.parts.iter().filter(|it| it.share == Share::HostIrq);
    let count = interrupts.fold(0_u32, |sum, it| sum.saturating_add(it.count));
    count == 1 && !had_part(&budget.exit.split, |share| share != Share::HostIrq)
}
