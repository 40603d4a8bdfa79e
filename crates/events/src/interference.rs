//! Live counters of interferences, which BPF writes and the workload's own thread reads between two
//! readings of its clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// One CPU's slot of the array that BPF and a polling thread share. A slot fills two cache lines:
/// neighbouring slots never share a line, and the adjacent-line prefetcher never loads the
/// neighbour's line.
///
/// BPF counts each interference at its start, on the CPU where it runs. If a thread of that CPU
/// reads the same `total` twice, nothing interrupted it between the two readings, and all counts
/// belong together.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct InterferenceSlot {
    /// Sum of the counts below. It changes whenever one of these counts changes.
    pub total: AtomicU64,
    /// Non-maskable interrupts.
    pub nmi: AtomicU64,
    /// Interrupts.
    pub irq: AtomicU64,
    /// Softirqs.
    pub softirq: AtomicU64,
    /// Turns of threads other than the watched thread; the idle task does not count.
    pub thread: AtomicU64,
    rest: [AtomicU64; 11],
}

impl InterferenceSlot {
    /// Returns the current count of each class.
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

/// Interferences by class. As in the kernel's osnoise (kernel/trace/trace_osnoise.c), each is
/// counted at its start; unlike there, idle is not a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterferenceCounts {
    /// Non-maskable interrupts.
    pub nmi: u64,
    /// Interrupts.
    pub irq: u64,
    /// Softirqs.
    pub softirq: u64,
    /// Turns of other threads.
    pub thread: u64,
}

impl InterferenceCounts {
    /// Returns the counts since `earlier`; counters never go back.
    pub fn since(self, earlier: InterferenceCounts) -> InterferenceCounts {
        InterferenceCounts {
            nmi: self.nmi.saturating_sub(earlier.nmi),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            thread: self.thread.saturating_sub(earlier.thread),
        }
    }
}
