//! Reads the interference counters together with the clock. It repeats the reading until the
//! counters do not change, so that the reading of the clock and the counts belong together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vmnoise_events::{InterferenceCounts, InterferenceSlot};

use crate::mailbox::add;
use crate::tsc;

/// Live counters of one CPU. BPF programs on the same CPU count.
pub type InterferenceCounter = Arc<dyn AsRef<InterferenceSlot> + Send + Sync>;

/// A reading of the clock, and the total number of interferences up to this reading.
#[derive(Debug, Clone, Copy)]
pub struct InterferenceReading {
    pub tsc: u64,
    pub interferences: u64,
}

/// Counters that are always zero, for a thread without counters.
struct Still(InterferenceSlot);

impl AsRef<InterferenceSlot> for Still {
    fn as_ref(&self) -> &InterferenceSlot {
        &self.0
    }
}

/// Interference counters, and their values at the last consistent reading.
pub struct InterferenceReader {
    counter: InterferenceCounter,
    seen: InterferenceCounts,
}

impl InterferenceReader {
    /// Creates a reader of `counter`. Without a counter, all counts are always 0.
    pub fn new(counter: Option<InterferenceCounter>) -> InterferenceReader {
        InterferenceReader {
            counter: counter.unwrap_or_else(|| Arc::new(Still(InterferenceSlot::default()))),
            seen: InterferenceCounts::default(),
        }
    }

    /// Returns the counter, so that the polling loop can read it between two readings of the clock.
    pub fn counter(&self) -> InterferenceCounter {
        Arc::clone(&self.counter)
    }

    /// Reads the clock and the counters together. Adds the counts since the previous reading to
    /// `observed`, if given.
    ///
    /// No fence is needed. The counting program runs on this CPU, and either interrupts this thread
    /// or runs while this thread does not. So the program sees everything that this thread did
    /// before, and nothing later.
    pub fn read(&mut self, observed: Option<&InterferenceSlot>) -> InterferenceReading {
        let slot = (*self.counter).as_ref();
        loop {
            let interferences = slot.total.load(Ordering::Acquire);
            let tsc = tsc::now();
            let counts = slot.counts();
            if slot.total.load(Ordering::Acquire) != interferences {
                continue;
            }
            let advance = counts.since(self.seen);
            self.seen = counts;
            if let Some(observed) = observed {
                add(&observed.nmi, advance.nmi);
                add(&observed.irq, advance.irq);
                add(&observed.softirq, advance.softirq);
                add(&observed.thread, advance.thread);
            }
            return InterferenceReading { tsc, interferences };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn interrupt(slot: &InterferenceSlot) {
        slot.total.fetch_add(1, Ordering::SeqCst);
        slot.irq.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn only_what_was_polled_is_observed() {
        let counter = Arc::new(Still(InterferenceSlot::default()));
        let observed = InterferenceSlot::default();
        let mut interference = InterferenceReader::new(Some(counter.clone()));
        interrupt(&counter.0);
        assert_eq!(interference.read(None).interferences, 1);
        interrupt(&counter.0);
        interrupt(&counter.0);
        assert_eq!(interference.read(Some(&observed)).interferences, 3);
        let two = InterferenceCounts {
            irq: 2,
            ..InterferenceCounts::default()
        };
        assert_eq!(observed.counts(), two);
        assert_eq!(
            InterferenceReader::new(None)
                .read(Some(&observed))
                .interferences,
            0
        );
        assert_eq!(observed.counts(), two);
    }

    /// If the counts change on another CPU, they change one after the other. So the count of one
    /// class may be one interrupt behind the total. The total must always match the clock.
    #[test]
    fn a_counter_that_moves_is_read_again() {
        let counter = Arc::new(Still(InterferenceSlot::default()));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    interrupt(&counter.0);
                    std::thread::yield_now();
                }
            });
            let mut interference = InterferenceReader::new(Some(counter.clone()));
            let mut last = interference.read(None);
            for _ in 0..10_000 {
                let next = interference.read(None);
                assert!(next.tsc >= last.tsc && next.interferences >= last.interferences);
                assert!(interference.seen.irq.abs_diff(next.interferences) <= 1);
                last = next;
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
