//! Whether tasks meet their deadlines with the CPU time that was left.
//!
//! The equations are those of the analyses that the PROSA project has verified for processors of
//! restricted supply (`prosa.results.rta.rs`; abstract response-time analysis: Bozhko and
//! Brandenburg, ECRTS 2020). The Python package `response-time-analysis` evaluates them. Demand,
//! arrivals and the search for fixed points come from the crate of that name.

mod breakdown;
mod edf;
mod fifo;
mod fixed_priority;
mod judge;
mod offsets;
mod task;

use response_time_analysis::fixed_point::SearchFailure;
use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Service};

pub use breakdown::{BreakdownGap, breakdown_gap};
pub use judge::{DeadlineVerdict, TaskVerdict, WINDOWS, judge};
pub use task::{PeriodicTask, Preemption, ScheduleOrder, TaskSet};

/// Bound of a job's response time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// Longest time from a job's arrival to its end, in nanoseconds.
    pub bound_ns: u64,
    /// Longest time for which the CPU is busy with jobs that are not later than one of this task,
    /// in nanoseconds.
    pub busy_window_ns: u64,
}

/// Largest number of jobs in a busy window that are examined.
const MOST_JOBS: u64 = 100_000;

/// Returns the largest number of jobs of all tasks that arrive in a window.
fn jobs_in(tasks: &[PeriodicTask], window_ns: u64) -> u64 {
    let window = Duration::from(window_ns);
    let jobs = tasks
        .iter()
        .map(|it| it.arrivals.number_arrivals(window) as u64);
    jobs.fold(0, u64::saturating_add)
}

/// Bounds the response times of one task of a set.
///
/// `blocking_ns` is the time at the begin of a busy window for which no task of the set has the
/// CPU, in addition to the supply. In the papers this is the latency of timers.
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
) -> Result<Response, SearchFailure> {
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
