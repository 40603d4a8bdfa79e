//! KVM's own time in plain exits, in which no other work was done, by class of exit.

use crate::lengths::Lengths;

/// Minimum number of plain exits from which the 99th percentile is used.
const ENOUGH: u64 = 100;

/// KVM's own time in plain exits of one class, in nanoseconds.
#[derive(Debug)]
struct Class {
    kvm_ns: Lengths,
    p99_ns: u64,
    /// Number of samples at which the percentile is computed next. Computing it for each sample
    /// would be slow, because each time the whole histogram is read.
    next_at: u64,
}

/// KVM's own time in plain exits, by class. A class is a dense index of the reason, and whether the
/// exit went to the VMM. The round trip to the VMM makes KVM's own part longer.
#[derive(Debug, Default)]
pub(crate) struct PlainKvm {
    classes: Vec<Option<Box<Class>>>,
}

impl PlainKvm {
    /// Adds KVM's time in a plain exit to the class of the exit.
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

    /// Returns the 99th percentile of KVM's time in plain exits of this class, in nanoseconds;
    /// `None` with too few exits.
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
