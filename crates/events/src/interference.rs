//! The live counters of interferences that BPF writes and the workload's own thread
//! reads between two readings of its clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// One CPU's slot of the array that BPF and a polling thread share. Two cache lines,
/// so that neighbours never share one and the adjacent-line prefetcher does not make
/// them.
///
/// BPF counts at the begin of each interference and on the CPU that it names. A
/// thread of that CPU which finds `total` unmoved was therefore not interrupted
/// between the two looks, and all the counts belong together.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct InterferenceSlot {
    /// All of the below: moves with each of them.
    pub total: AtomicU64,
    /// Non-maskable interrupts.
    pub nmi: AtomicU64,
    /// Interrupts.
    pub irq: AtomicU64,
    /// Soft interrupts.
    pub softirq: AtomicU64,
    /// Turns of other threads than the watched one; idle is none.
    pub thread: AtomicU64,
    rest: [AtomicU64; 11],
}

impl InterferenceSlot {
    /// What each class has come to.
    pub fn counts(&self) -> InterferenceCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        InterferenceCounts {
            nmi: read(&self.nmi),
            irq: read(&self.irq),
            softirq: read(&self.softirq),
            thread: read(&self.thread),
        }
    }
}

/// Interferences by class, as the kernel's osnoise counts them at their begin
/// (kernel/trace/trace_osnoise.c), except that idle is no thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterferenceCounts {
    /// Non-maskable interrupts.
    pub nmi: u64,
    /// Interrupts.
    pub irq: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// Turns of other threads.
    pub thread: u64,
}

impl InterferenceCounts {
    /// What came after `earlier`; counters never go back.
    pub fn since(self, earlier: InterferenceCounts) -> InterferenceCounts {
        InterferenceCounts {
            nmi: self.nmi.saturating_sub(earlier.nmi),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            thread: self.thread.saturating_sub(earlier.thread),
        }
    }
}
