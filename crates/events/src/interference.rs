//! Live counters of interferences. BPF programs write the counters. The workload's own thread reads
//! them between two readings of its clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// One CPU's slot of the array that BPF and a polling thread share. A slot fills two cache lines.
/// So neighbouring slots never share a cache line, and the adjacent-line prefetcher never loads a
/// line of another slot.
///
/// BPF counts each interference at its start, on the CPU where it runs. If a thread of that CPU
/// reads the same `total` twice, nothing interrupted the thread between the two readings. Counts
/// that it read in between then belong to the same instant.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct InterferenceSlot {
    /// Sum of the four counts below. It changes whenever one of them changes.
    pub total: AtomicU64,
    /// Number of non-maskable interrupts.
    pub nmi: AtomicU64,
    /// Number of interrupts.
    pub irq: AtomicU64,
    /// Number of softirqs.
    pub softirq: AtomicU64,
    /// Number of times that another thread was switched in. The polling thread itself and the idle
    /// task do not count.
    pub thread: AtomicU64,
    rest: [AtomicU64; 11],
}

impl InterferenceSlot {
    /// Returns the current number of interferences of each class.
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

/// Numbers of interferences by class. As in the kernel's osnoise tracer
/// (kernel/trace/trace_osnoise.c), each interference is counted at its start. Unlike in that
/// tracer, the idle task does not count as a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterferenceCounts {
    /// Number of non-maskable interrupts.
    pub nmi: u64,
    /// Number of interrupts.
    pub irq: u64,
    /// Number of softirqs.
    pub softirq: u64,
    /// Number of times that another thread was switched in.
    pub thread: u64,
}

impl InterferenceCounts {
    /// Returns the numbers since `earlier`; 0 if a counter went back.
    pub fn since(self, earlier: InterferenceCounts) -> InterferenceCounts {
        InterferenceCounts {
            nmi: self.nmi.saturating_sub(earlier.nmi),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            thread: self.thread.saturating_sub(earlier.thread),
        }
    }
}
