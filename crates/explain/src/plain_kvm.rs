//! What KVM itself takes of exits in which nobody else does anything, by their class.

use crate::lengths::Lengths;

/// Below this many plain exits a 99th percentile says nothing.
const ENOUGH: u64 = 100;

/// KVM's own time in plain exits of one class, in nanoseconds.
#[derive(Debug)]
struct Class {
    kvm_ns: Lengths,
    p99_ns: u64,
    /// Sample count at which the percentile, which costs a walk over the
    /// histogram, is taken anew.
    next_at: u64,
}

/// Plain exits by class: a dense index of their reason, and whether they went to the VMM
/// (whose round trip makes KVM's own part longer).
#[derive(Debug, Default)]
pub(crate) struct PlainKvm {
    classes: Vec<Option<Box<Class>>>,
}

impl PlainKvm {
    /// Takes KVM's part of a plain exit.
    pub(crate) fn record(&mut self, reason: usize, heavy: bool, kvm_ns: u64) {
        let place = place(reason, heavy);
        if place >= self.classes.len() {
            self.classes.resize_with(place + 1, || None);
        }
        let class = self.classes[place].get_or_insert_with(|| {
            let kvm_ns = Lengths::default();
            Box::new(Class {
                kvm_ns,
                p99_ns: 0,
                next_at: ENOUGH,
            })
        });
        class.kvm_ns.record(kvm_ns);
        let samples = class.kvm_ns.count();
        if samples >= class.next_at {
            [class.p99_ns] = class.kvm_ns.at_quantiles([0.99]);
            class.next_at = samples + samples / 16;
        }
    }

    /// The 99th percentile of KVM's part; `None` as long as too few are known.
    pub(crate) fn p99_ns(&self, reason: usize, heavy: bool) -> Option<u64> {
        match self.classes.get(place(reason, heavy)) {
            Some(Some(class)) if class.kvm_ns.count() >= ENOUGH => Some(class.p99_ns),
            _ => None,
        }
    }
}

fn place(reason: usize, heavy: bool) -> usize {
    2 * reason + usize::from(heavy)
}
