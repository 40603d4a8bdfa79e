//! Interface of a workload, for a program that measures with it.

use vmnoise_events::{CpuTally, Event};

/// Reason why a workload cannot start, or ended early.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A thread of a workload, and the CPU that this thread measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredThread {
    /// CPU that the thread measures.
    pub cpu: u32,
    /// Thread id in the kernel (gettid(2)).
    pub tid: u32,
}

/// A workload that is prepared, running or ended.
pub trait RunningWorkload {
    /// Returns the threads of the workload. A workload without threads of its own returns the
    /// threads that it observes, with one entry for each CPU that a thread may use.
    fn threads(&self) -> Vec<MeasuredThread>;

    /// Starts all threads together. Call this function only once. Each thread ends by itself at its
    /// first reading of the TSC at or after `end_tsc`; `None` means no end.
    ///
    /// # Errors
    /// The error of a thread that has already ended.
    fn start(&mut self, end_tsc: Option<u64>) -> Result<(), Failure>;

    /// Lets the threads continue until `until_tsc`. At that time, the threads sleep until the next
    /// call of this function, and their sleep is blind time. Without any call, the threads continue
    /// until their end.
    fn renew(&mut self, until_tsc: u64);

    /// Passes every gap or activation since the last call to `sink`, for each CPU in the order of
    /// time. Call this function at least 20 times a second, on a CPU that is not measured.
    ///
    /// Gaps of one CPU never overlap, but one gap may begin where another gap ends. If
    /// [`RunningWorkload::tallies`] is called first, this function passes every gap up to the
    /// tally's `last_tsc`.
    fn drain(&mut self, sink: &mut dyn FnMut(Event));

    /// Returns the counters of each CPU since the start; all counters are 0 before the start.
    /// Counters that only the tracer knows are `None`.
    fn tallies(&self) -> Vec<CpuTally>;

    /// Returns the number of gaps or activations that were lost because a ring was full, on all
    /// CPUs since the start.
    fn dropped(&self) -> u64;

    /// Returns how often a clock was earlier than its previous reading, on all CPUs since the
    /// start. If the number is not 0, the TSC is not reliable.
    fn clock_steps_back(&self) -> u64;

    /// Returns whether any of the workload's own threads still exists. This is true from the
    /// preparation until the last thread has ended.
    fn running(&self) -> bool;

    /// Returns why a thread ended early or lost its CPU; `None` if no thread did. The other threads
    /// continue, and recorded data stay valid.
    fn failure(&self) -> Option<Failure>;

    /// Asks all threads to end now, whether they measure or sleep.
    fn stop(&mut self);
}
