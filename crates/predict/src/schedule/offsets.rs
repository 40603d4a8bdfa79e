//! Parts that all analyses share. They examine a job that arrives some time after the begin of a
//! busy window.

use response_time_analysis::fixed_point::{SearchResult, search};
use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Offset, Service};

use super::{MOST_JOBS, ManyJobs, PeriodicTask, UnboundedResponse, jobs_in};

/// Returns an error if more than [`MOST_JOBS`] jobs arrive in a window of this length. `jobs` names
/// the jobs in the error.
pub(super) fn refuse_many(
    tasks: &[PeriodicTask],
    window: Duration,
    jobs: ManyJobs,
) -> Result<(), UnboundedResponse> {
    match jobs_in(tasks, window.into()) > MOST_JOBS {
        true => Err(UnboundedResponse::TooMany(jobs)),
        false => Ok(()),
    }
}

/// Returns the time from the arrival of a job to its end. The job arrives at the offset `arrival`
/// of the busy window.
///
/// The last part of the job cannot be preempted and needs `tail`. It begins once the busy window
/// has left `until_then` to the tasks; `until_then` depends on the length of the window so far.
pub(super) fn done_after(
    supply: &dyn SupplyBound,
    arrival: Offset,
    limit: Duration,
    tail: Service,
    until_then: impl Fn(Duration) -> Service,
) -> SearchResult {
    let begun = search(supply, limit, until_then)?;
    let done = match tail.is_none() {
        true => begun,
        false => {
            let needed = supply.provided_service(begun) + tail;
            search(supply, limit, |_| needed)?
        }
    };
    Ok(done.max(begun).saturating_sub(arrival.since_time_zero()))
}

/// Returns the largest of all bounds, or the first error.
pub(super) fn longest(mut bounds: impl Iterator<Item = SearchResult>) -> SearchResult {
    bounds.try_fold(Duration::zero(), |longest, bound| Ok(longest.max(bound?)))
}
