//! Describes periodic tasks that ran on a CPU while the CPU was recorded.

mod poller;
mod unthrottled;

use serde::{Deserialize, Serialize};

pub use poller::Poller;
pub use unthrottled::ThrottlingGuard;

/// A task and all of its jobs. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedTask {
    /// Name of the task's thread.
    pub name: String,
    /// Thread ID of the task.
    pub tid: u32,
    /// SCHED_FIFO priority of the task; `None` for SCHED_DEADLINE.
    pub priority: Option<i32>,
    /// Duration of a job's work without disturbance, nanoseconds.
    pub work_ns: u64,
    /// Time between the arrivals of two jobs, nanoseconds.
    pub period_ns: u64,
    /// CPU time that the scheduler charged the thread (CLOCK_THREAD_CPUTIME_ID), nanoseconds. This
    /// time begins before the first job and ends after the last job.
    pub charged_ns: u64,
    /// Arrival of the first job, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// End of each job's work, in order, CLOCK_MONOTONIC in nanoseconds. At least one job has
    /// ended.
    pub done_ns: Vec<u64>,
}

impl PlayedTask {
    /// Returns the arrival and the end of each job. The arrival is the time for which the job's
    /// timer was set.
    pub fn jobs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let arrivals = (0..).map(|nth| self.start_ns + nth * self.period_ns);
        arrivals.zip(self.done_ns.iter().copied())
    }
}
