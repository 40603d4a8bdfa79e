//! KVM's usual time in exits. The share `kvm` is the time of an exit that no other part explains.
//! Unexplained time of other work in an exit would therefore become KVM's.
//!
//! Exits with the least other work show how long KVM usually takes for the same reason. Time above
//! the 99th percentile of these exits becomes residual. With too few such exits, `kvm` is reported
//! as without a bound.

use crate::plain_kvm::PlainKvm;

/// Other work that took part in an exit. KVM, the VMM and a halt that the guest requested do not
/// count as other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    Nobody,
    /// The host handled one interrupt and did no other work. An exit for an interrupt always
    /// contains one interrupt.
    OneInterrupt,
    More,
}

/// KVM's time in an exit, with the class of the exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KvmPart {
    /// Dense index of the exit's reason.
    pub(crate) reason: usize,
    /// Whether the exit went to the VMM.
    pub(crate) heavy: bool,
    pub(crate) others: Others,
    pub(crate) ns: u64,
}

/// KVM's time beyond its usual time in an exit, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Held {
    /// KVM's time above its usual time.
    pub(crate) surplus_ns: u64,
    /// KVM's whole time, if too few exits show the usual time.
    pub(crate) unbounded_ns: u64,
}

/// KVM's usual time, learned from exits in time order.
#[derive(Debug, Default)]
pub(crate) struct UsualKvm {
    plain: PlainKvm,
    interrupted: PlainKvm,
}

impl UsualKvm {
    /// Adds an exit to the samples of KVM's usual time, if little enough other work took part in
    /// it.
    pub(crate) fn learn(&mut self, part: KvmPart) {
        let standards = match part.others {
            Others::Nobody => &mut self.plain,
            Others::OneInterrupt => &mut self.interrupted,
            Others::More => return,
        };
        standards.record(part.reason, part.heavy, part.ns);
    }

    /// Returns KVM's time beyond its usual time; 0 if no other work took part in the exit.
    pub(crate) fn judge(&self, part: KvmPart) -> Held {
        if part.others == Others::Nobody {
            return Held::default();
        }
        let of = |standards: &PlainKvm| standards.p99_ns(part.reason, part.heavy);
        match of(&self.plain).or_else(|| of(&self.interrupted)) {
            Some(usual_ns) => Held {
                surplus_ns: part.ns.saturating_sub(usual_ns),
                unbounded_ns: 0,
            },
            None => Held {
                surplus_ns: 0,
                unbounded_ns: part.ns,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER: KvmPart = KvmPart {
        reason: 3,
        heavy: false,
        others: Others::OneInterrupt,
        ns: 2_000,
    };

    fn learned(count: usize, part: KvmPart) -> UsualKvm {
        let mut usual = UsualKvm::default();
        (0..count).for_each(|_| usual.learn(part));
        usual
    }

    fn held(usual: &UsualKvm, part: KvmPart) -> (u64, u64) {
        let held = usual.judge(part);
        (held.surplus_ns, held.unbounded_ns)
    }

    #[test]
    fn an_exit_for_an_interrupt_is_held_against_its_like() {
        let long = KvmPart {
            ns: 5_000_000,
            ..TIMER
        };
        assert_eq!(held(&learned(99, TIMER), long), (0, 5_000_000));
        let usual = learned(200, TIMER);
        assert_eq!(held(&usual, long), (4_998_000, 0));
        assert_eq!(held(&usual, TIMER), (0, 0));
        let two = KvmPart {
            others: Others::More,
            ..long
        };
        assert_eq!(held(&usual, two), (4_998_000, 0));
    }

    #[test]
    fn exits_without_others_are_the_better_standard() {
        let mut usual = learned(200, TIMER);
        let plain = KvmPart {
            others: Others::Nobody,
            ns: 500,
            ..TIMER
        };
        (0..100).for_each(|_| usual.learn(plain));
        assert_eq!(held(&usual, TIMER), (1_500, 0));
        let long = KvmPart { ns: 9_000, ..plain };
        assert_eq!(held(&usual, long), (0, 0), "nobody else had part");
    }

    #[test]
    fn other_reasons_and_ways_are_no_standard() {
        let usual = learned(200, TIMER);
        let other = KvmPart { reason: 4, ..TIMER };
        let heavy = KvmPart {
            heavy: true,
            ..TIMER
        };
        assert_eq!(held(&usual, other), (0, 2_000));
        assert_eq!(held(&usual, heavy), (0, 2_000));
        let more = KvmPart {
            others: Others::More,
            ..TIMER
        };
        assert_eq!(held(&learned(500, more), TIMER), (0, 2_000));
    }
}
