//! Analysis of jobs that run first come, first served. All tasks have the same bound.

use response_time_analysis::demand::{RequestBound, Slice, step_offsets};
use response_time_analysis::fixed_point::search;
use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Offset, Service};

use super::offsets::{done_after, longest, refuse_many};
use super::task::{Demand, PeriodicTask};
use super::unbounded::{ManyJobs, UnboundedResponse};

/// Returns the bound of the response time, and the longest busy window; see [`super::response`].
pub(super) fn response(
    tasks: &[PeriodicTask],
    supply: &dyn SupplyBound,
    blocking: Service,
    limit: Duration,
) -> Result<(Duration, Duration), UnboundedResponse> {
    let demands: Vec<Demand<'_>> = tasks.iter().map(PeriodicTask::demand).collect();
    let all = Slice::of(&demands);
    let busy = search(supply, limit, |window| {
        blocking + all.service_needed(window)
    })?;
    refuse_many(tasks, busy, ManyJobs::InBusyWindow)?;
    let offsets = step_offsets(&all).take_while(|it| *it < Offset::from_time_zero(busy));
    let bounds = offsets.map(|arrival| {
        let needed = blocking + all.service_needed(arrival.closed_since_time_zero());
        done_after(supply, arrival, limit, Service::none(), |_| needed)
    });
    Ok((longest(bounds)?, busy))
}
