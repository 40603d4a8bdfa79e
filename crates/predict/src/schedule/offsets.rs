//! What the analyses share: a job that comes some time after a busy window began.

use response_time_analysis::fixed_point::{SearchFailure, SearchResult, search};
use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Offset, Service};

use super::{MOST_JOBS, Task, jobs_in};

/// Each job of a busy window is looked at.
pub(super) fn refuse_many(tasks: &[Task], busy: Duration) -> Result<(), SearchFailure> {
    match jobs_in(tasks, busy.into()) > MOST_JOBS {
        true => Err(SearchFailure::AssumptionViolated),
        false => Ok(()),
    }
}

/// How long after its arrival at this offset a job is done. It begins its last part, which nobody
/// preempts and for which it needs `tail` more, once `until_then` was left in as long a window.
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

/// The longest of all; the first that has none.
pub(super) fn longest(mut bounds: impl Iterator<Item = SearchResult>) -> SearchResult {
    bounds.try_fold(Duration::zero(), |longest, bound| Ok(longest.max(bound?)))
}
