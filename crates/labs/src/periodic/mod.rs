//! Periodic tasks that ran on a CPU while it was recorded.

mod poller;
mod unthrottled;

use serde::{Deserialize, Serialize};

pub use poller::Poller;
pub use unthrottled::Unthrottled;

/// A task and all of its jobs. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Played {
    /// What its thread was called.
    pub name: String,
    /// The kernel's number of that thread.
    pub tid: u32,
    /// Of SCHED_FIFO; `None` of SCHED_DEADLINE.
    pub priority: Option<i32>,
    /// How long the work of a job takes where nobody disturbs it, nanoseconds.
    pub work_ns: u64,
    /// How far apart jobs came, nanoseconds.
    pub period_ns: u64,
    /// What the scheduler charged the thread from before its first job until after its last one
    /// (CLOCK_THREAD_CPUTIME_ID), nanoseconds.
    pub charged_ns: u64,
    /// When its first job came.
    pub start_ns: u64,
    /// When the work of each job was done, in their order; at least one.
    pub done_ns: Vec<u64>,
}

impl Played {
    /// When each job came, for which its timer was set, and when it was done.
    pub fn jobs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let arrivals = (0..).map(|nth| self.start_ns + nth * self.period_ns);
        arrivals.zip(self.done_ns.iter().copied())
    }
}
