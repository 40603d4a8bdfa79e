//! What a program that measures needs of a workload, whichever it is.

use vmnoise_events::{Event, Tally};

/// Why a workload cannot start, or ended early.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A thread of a workload, and a CPU that it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredThread {
    /// The CPU.
    pub cpu: u32,
    /// The thread's id in the kernel (gettid(2)).
    pub tid: u32,
}

/// A prepared, running or ended workload.
pub trait Workload {
    /// Its threads. A workload without threads of its own names those that it observes,
    /// each with every CPU that it may use.
    fn threads(&self) -> Vec<MeasuredThread>;

    /// Starts all threads together, once; each ends by itself at its first reading of
    /// the TSC at or after `end_tsc`.
    ///
    /// # Errors
    /// The failure of a thread that has died already.
    fn start(&mut self, end_tsc: Option<u64>) -> Result<(), Failure>;

    /// The threads may go on until `until_tsc`; then they sleep until it is moved, which
    /// is blind time. Without this they go on until their end.
    fn renew(&mut self, until_tsc: u64);

    /// Hands every gap or activation that was recorded since the last call to `sink`,
    /// per CPU in the order of time. Call it 20 times a second or more, on a CPU that is
    /// not measured.
    ///
    /// Gaps of one CPU never overlap; two may touch. Where [`Workload::tallies`] is
    /// called first, every gap up to its `last_tsc` is handed out.
    fn drain(&mut self, sink: &mut dyn FnMut(Event));

    /// The counters of each CPU since the start; all zero before it. What only the
    /// tracer knows is `None`.
    fn tallies(&self) -> Vec<Tally>;

    /// Gaps or activations that were lost because a ring was full, on all CPUs since the
    /// start.
    fn dropped(&self) -> u64;

    /// How often a clock was behind its last reading, on all CPUs since the start. Not 0
    /// means that the TSC is not to be trusted.
    fn clock_steps_back(&self) -> u64;

    /// Whether any thread of its own is still there: from the preparation until the last
    /// one has reached its end.
    fn running(&self) -> bool;

    /// Why a thread ended early or lost its CPU, if one did. The others go on, and what
    /// was recorded stays.
    fn failure(&self) -> Option<Failure>;

    /// Asks all threads to end now, whether they measure or sleep.
    fn stop(&mut self);
}
