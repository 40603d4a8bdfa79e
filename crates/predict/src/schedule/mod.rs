//! Analysis of whether tasks meet their deadlines with the CPU time that was left.
//!
//! The equations are those of the analyses for processors of restricted supply that the PROSA
//! project has verified. They are `prosa.results.rta.rs`, based on abstract response-time analysis:
//! Bozhko and Brandenburg, ECRTS 2020. The Python package `response-time-analysis` evaluates the
//! same equations. The Rust crate of that name provides demand, arrivals and the search for fixed
//! points.

mod breakdown;
mod edf;
mod fifo;
mod fixed_priority;
mod judge;
mod offsets;
mod task;
mod unbounded;

use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Service};

pub use breakdown::{BreakdownGap, breakdown_gap};
pub use judge::{DeadlineVerdict, TaskVerdict, WINDOWS, judge};
pub use task::{PeriodicTask, Preemption, ScheduleOrder, TaskSet};
pub use unbounded::{ManyJobs, UnboundedResponse};

/// Bounds of the response time of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// Longest time from a job's arrival to its end, in nanoseconds.
    pub bound_ns: u64,
    /// Longest time for which the CPU is busy with jobs that run no later than a job of this task,
    /// in nanoseconds.
    pub busy_window_ns: u64,
}

/// Maximum number of jobs that the analysis examines.
const MOST_JOBS: u64 = 100_000;

/// Returns the maximum number of jobs of all tasks that arrive in a window of this length.
fn jobs_in(tasks: &[PeriodicTask], window_ns: u64) -> u64 {
    let window = Duration::from(window_ns);
    let jobs = tasks
        .iter()
        .map(|it| it.arrivals.number_arrivals(window) as u64);
    jobs.fold(0, u64::saturating_add)
}

/// Returns bounds of the response time of the task with the index `of`.
///
/// `blocking_ns` is a time at the begin of a busy window in which no task of the set has the CPU,
/// in addition to the time that `supply` lacks. The papers use this time for the latency of timers.
///
/// # Errors
/// If there is no bound below `limit_ns`, or too many jobs would have to be examined.
pub fn response(
    policy: ScheduleOrder,
    tasks: &[PeriodicTask],
    of: usize,
    supply: &dyn SupplyBound,
    blocking_ns: u64,
    limit_ns: u64,
) -> Result<Response, UnboundedResponse> {
    let blocking = Service::from(blocking_ns);
    let limit = Duration::from(limit_ns);
    let (bound, busy_window) = match policy {
        ScheduleOrder::FixedPriority => {
            fixed_priority::response(tasks, of, supply, blocking, limit)?
        }
        ScheduleOrder::Edf => edf::response(tasks, of, supply, blocking, limit)?,
        ScheduleOrder::Fifo => fifo::response(tasks, supply, blocking, limit)?,
    };
    Ok(Response {
        bound_ns: bound.into(),
        busy_window_ns: busy_window.into(),
    })
}

#[cfg(test)]
mod tests;
