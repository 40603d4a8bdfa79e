//! One wake-up of a periodic task: the planned time, and the time at which the kernel and the task
//! reached each point of the wake-up.

/// A wake-up of a task that had asked to run at `expiry_mono_ns`. All times are CLOCK_MONOTONIC in
/// nanoseconds. A time is `None` if no probe saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activation {
    /// The CPU of the task.
    pub cpu: u32,
    /// Time at which the task wanted to run.
    pub expiry_mono_ns: u64,
    /// Time at which the task read the clock again, in user space. A time before the expiry is a
    /// defect.
    pub woke_mono_ns: u64,
    /// Time at which the kernel armed the timer.
    pub armed_mono_ns: Option<u64>,
    /// Time at which the timer's interrupt handled this timer.
    pub irq_mono_ns: Option<u64>,
    /// Time at which the interrupt woke the task.
    pub waking_mono_ns: Option<u64>,
    /// Time at which the task was switched in.
    pub switch_mono_ns: Option<u64>,
    /// Advance of this machine's steal clock in five consecutive intervals, in nanoseconds:
    /// - from the CPU's last event before the expiry until the timer was armed; 0 if the timer was
    ///   armed before the expiry
    /// - until the timer's interrupt
    /// - until the interrupt woke the task
    /// - until the task was switched in
    /// - until the task read the clock in user space
    ///
    /// If no probe saw the end of an interval, its value is 0, and the next interval contains its
    /// steal time. The values are valid only if the run has [`crate::Witnesses::activity_steal`].
    pub steal_ns: [u64; 5],
    /// Number of expiries since the last activation that passed before the task could set its
    /// timer.
    pub missed: u32,
}
