//! Times of the steps of the current wake-up, which BPF writes and the periodic task reads.

use std::sync::atomic::AtomicU64;

/// One CPU's slot of the array that BPF and the periodic task share. A slot fills two cache lines,
/// so neighbouring slots never share one.
///
/// Before it sleeps, the task writes the expiry and its own last reading of the steal clock, and
/// clears the rest. BPF writes the rest on the same CPU, before the task runs again, so neither
/// side sees a half-written slot. Times are CLOCK_MONOTONIC in nanoseconds. Steal is that of the
/// CPU since boot. 0 means "not seen".
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct TimerSlot {
    /// Expiry that the task waits for.
    pub expiry_mono_ns: AtomicU64,
    /// Time at which the timer was armed.
    pub armed_mono_ns: AtomicU64,
    /// Time at which the timer's interrupt handled this timer.
    pub irq_mono_ns: AtomicU64,
    /// Time at which the task was woken.
    pub waking_mono_ns: AtomicU64,
    /// Time at which the task was switched in.
    pub switch_mono_ns: AtomicU64,
    /// Steal clock at the CPU's last event before the expiry; the task's own previous wake-up
    /// counts as an event.
    pub before_steal_ns: AtomicU64,
    /// Steal clock when the timer was armed.
    pub armed_steal_ns: AtomicU64,
    /// Steal clock when the interrupt handled the timer.
    pub irq_steal_ns: AtomicU64,
    /// Steal clock when the task was woken.
    pub waking_steal_ns: AtomicU64,
    /// Steal clock when the task was switched in.
    pub switch_steal_ns: AtomicU64,
    rest: [AtomicU64; 6],
}
