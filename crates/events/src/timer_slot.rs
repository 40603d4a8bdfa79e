//! The steps of the wake-up under way, which BPF writes and the periodic task reads.

use std::sync::atomic::AtomicU64;

/// One CPU's slot of the array that BPF and the periodic task share. Two cache lines, so
/// that neighbours never share one.
///
/// Before it sleeps, the task writes the expiry and its own last reading of the steal clock, and
/// clears the rest; BPF writes the rest, on the same CPU and before the task runs again. So nobody ever sees half of it. Times are
/// CLOCK_MONOTONIC in nanoseconds, steal is that of the CPU since boot, and 0 is "not seen".
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct TimerSlot {
    /// What the task waits for.
    pub expiry_mono_ns: AtomicU64,
    /// The timer was armed.
    pub armed_mono_ns: AtomicU64,
    /// The timer's interrupt came to it.
    pub irq_mono_ns: AtomicU64,
    /// The task was woken.
    pub waking_mono_ns: AtomicU64,
    /// The task was switched in.
    pub switch_mono_ns: AtomicU64,
    /// The steal clock at the last event of the CPU before the expiry, the task's own wake-up before
    /// included.
    pub before_steal_ns: AtomicU64,
    /// The steal clock when the timer was armed.
    pub armed_steal_ns: AtomicU64,
    /// The steal clock when the interrupt came to the timer.
    pub irq_steal_ns: AtomicU64,
    /// The steal clock when the task was woken.
    pub waking_steal_ns: AtomicU64,
    /// The steal clock when the task was switched in.
    pub switch_steal_ns: AtomicU64,
    rest: [AtomicU64; 6],
}
