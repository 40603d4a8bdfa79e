//! What KVM usually takes of an exit. `kvm` is what remains of an exit, so time that nobody
//! explains would silently become KVM's wherever others make an exit long. Exits in which others
//! had least part show what KVM takes for the same reason; beyond their 99th percentile the
//! remainder is residual, and where too few have shown it, the remainder is reported as untested.

use crate::plain_kvm::PlainKvm;

/// Who had part in an exit, but for KVM, the VMM and the guest's own wish to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    Nobody,
    /// One interrupt and nobody else: an exit for an interrupt is never without.
    OneInterrupt,
    More,
}

/// What KVM had of an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KvmPart {
    /// A dense index of the exit's reason.
    pub(crate) reason: usize,
    /// Whether it went to the VMM.
    pub(crate) heavy: bool,
    pub(crate) others: Others,
    pub(crate) ns: u64,
}

/// What is to be said of KVM's part of an exit, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Held {
    /// So much more than usual.
    pub(crate) surplus_ns: u64,
    /// All of it, where too few exits have shown what is usual.
    pub(crate) unbounded_ns: u64,
}

/// Learns from exits in the order of time, and holds others against them.
#[derive(Debug, Default)]
pub(crate) struct UsualKvm {
    plain: PlainKvm,
    interrupted: PlainKvm,
}

impl UsualKvm {
    /// Takes an exit as a standard for those after it, if it may be one.
    pub(crate) fn learn(&mut self, part: KvmPart) {
        let standards = match part.others {
            Others::Nobody => &mut self.plain,
            Others::OneInterrupt => &mut self.interrupted,
            Others::More => return,
        };
        standards.record(part.reason, part.heavy, part.ns);
    }

    /// Where nobody else had part, all of it is KVM's own.
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
