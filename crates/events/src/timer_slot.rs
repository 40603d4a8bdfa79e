//! Times of the current wake-up of a periodic task. BPF writes them, and the task reads them.

use std::sync::atomic::AtomicU64;

/// One CPU's slot of the array that BPF and the periodic task share. A slot fills two cache lines,
/// so neighbouring slots never share a cache line.
///
/// Before the task sleeps, it writes the expiry and its own last reading of the steal clock, and
/// sets the other times to 0. BPF then writes the rest of the slot on the same CPU, before the task
/// runs again. So neither side reads a half-written slot. Times are CLOCK_MONOTONIC in nanoseconds;
/// 0 means that no probe saw the event. Steal clocks count the steal time of the CPU since boot, in
/// nanoseconds.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct TimerSlot {
    /// Expiry for which the task waits.
    pub expiry_mono_ns: AtomicU64,
    /// Time at which the timer was armed.
    pub armed_mono_ns: AtomicU64,
    /// Time at which the timer's interrupt handled this timer.
    pub irq_mono_ns: AtomicU64,
    /// Time at which the task was woken.
    pub waking_mono_ns: AtomicU64,
    /// Time at which the task was switched in.
    pub switch_mono_ns: AtomicU64,
    /// Value of the steal clock at the CPU's last event before the expiry. The task's own reading
    /// before it slept counts as an event.
    pub before_steal_ns: AtomicU64,
    /// Value of the steal clock when the timer was armed.
    pub armed_steal_ns: AtomicU64,
    /// Value of the steal clock when the interrupt handled the timer.
    pub irq_steal_ns: AtomicU64,
    /// Value of the steal clock when the task was woken.
    pub waking_steal_ns: AtomicU64,
    /// Value of the steal clock when the task was switched in.
    pub switch_steal_ns: AtomicU64,
    rest: [AtomicU64; 6],
}
