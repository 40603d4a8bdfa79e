//! The interface of a workload for a program that measures.

use vmnoise_events::{CpuTally, Event};

/// The reason why a workload cannot start, or ended early.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A thread of a workload, and the CPU that this thread measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredThread {
    /// The CPU.
    pub cpu: u32,
    /// The thread's id in the kernel (gettid(2)).
    pub tid: u32,
}

/// A prepared, running or ended workload.
pub trait RunningWorkload {
    /// Returns its threads. A workload without its own threads returns those that it observes, each
    /// with every CPU that it may use.
    fn threads(&self) -> Vec<MeasuredThread>;

    /// Starts all threads together, once. Each ends by itself at its first reading of the TSC at or
    /// after `end_tsc`.
    ///
    /// # Errors
    /// The failure of a thread that has already died.
    fn start(&mut self, end_tsc: Option<u64>) -> Result<(), Failure>;

    /// Lets the threads continue until `until_tsc`. Then they sleep until it is moved, which is
    /// blind time. Without this call they continue until their end.
    fn renew(&mut self, until_tsc: u64);

    /// Passes every gap or activation since the last call to `sink`, per CPU in the order of time.
    /// Call it 20 times a second or more, on a CPU that is not measured.
    ///
    /// Gaps of one CPU never overlap; two may touch. If [`Workload::tallies`] is called first,
    /// every gap up to its `last_tsc` is passed on.
    fn drain(&mut self, sink: &mut dyn FnMut(Event));

    /// Returns the counters of each CPU since the start; all zero before it. Counters that only the
    /// tracer knows are `None`.
    fn tallies(&self) -> Vec<CpuTally>;

    /// Returns the number of gaps or activations that were lost because a ring was full, on all
    /// CPUs since the start.
    fn dropped(&self) -> u64;

    /// Returns how often a clock was behind its last reading, on all CPUs since the start. If it is
    /// not 0, the TSC is not reliable.
    fn clock_steps_back(&self) -> u64;

    /// Returns whether any of its own threads still exists: from the preparation until the last one
    /// has ended.
    fn running(&self) -> bool;

    /// Returns why a thread ended early or lost its CPU, if one did. The others continue, and
    /// recorded data stay.
    fn failure(&self) -> Option<Failure>;

    /// Asks all threads to end now, whether they measure or sleep.
    fn stop(&mut self);
}
