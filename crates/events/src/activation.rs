//! One wake-up of a periodic task: what was planned, and when each step of it happened.

/// A task that had asked to be woken at `expiry_mono_ns`, and was. All times are
/// CLOCK_MONOTONIC in nanoseconds. What no witness saw is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activation {
    /// The CPU of the task.
    pub cpu: u32,
    /// When it was to run.
    pub expiry_mono_ns: u64,
    /// When it read the clock again, in user space. Before the expiry is a defect.
    pub woke_mono_ns: u64,
    /// When the kernel armed the timer.
    pub armed_mono_ns: Option<u64>,
    /// When the timer's interrupt came to this timer.
    pub irq_mono_ns: Option<u64>,
    /// When it woke the task.
    pub waking_mono_ns: Option<u64>,
    /// When the task was switched in.
    pub switch_mono_ns: Option<u64>,
    /// What this machine's steal clock advanced by from the last event of the CPU before the
    /// expiry until the timer was armed, if only after it; from there to the timer's interrupt, to
    /// the wake-up, to the switch, and to user space. Nanoseconds; 0 around a step that was not
    /// seen. They say nothing unless the run's [`crate::Witnesses::activity_steal`] holds.
    pub steal_ns: [u64; 5],
    /// Expiries between the last activation and this one that were over before the task
    /// could ask for them.
    pub missed: u32,
}
