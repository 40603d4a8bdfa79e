//! Periodic tasks that ran on a CPU while it was recorded.

mod poller;
mod unthrottled;

use serde::{Deserialize, Serialize};

pub use poller::Poller;
pub use unthrottled::ThrottlingGuard;

/// A task and all of its jobs. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedTask {
    /// Name of its thread.
    pub name: String,
    /// Thread ID.
    pub tid: u32,
    /// Priority of SCHED_FIFO; `None` for SCHED_DEADLINE.
    pub priority: Option<i32>,
    /// Length of a job's work without disturbance, nanoseconds.
    pub work_ns: u64,
    /// Time between two jobs, nanoseconds.
    pub period_ns: u64,
    /// Time that the scheduler charged the thread from before its first job until after its last
    /// (CLOCK_THREAD_CPUTIME_ID), nanoseconds.
    pub charged_ns: u64,
    /// Arrival of the first job.
    pub start_ns: u64,
    /// End of each job's work, in order; at least one.
    pub done_ns: Vec<u64>,
}

impl PlayedTask {
    /// Returns the arrival of each job, for which its timer was set, and its end.
    pub fn jobs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let arrivals = (0..).map(|nth| self.start_ns + nth * self.period_ns);
        arrivals.zip(self.done_ns.iter().copied())
    }
}
