//! Analysis of tasks with fixed priorities. The task with the highest priority runs first.

use response_time_analysis::demand::{RequestBound, step_offsets};
use response_time_analysis::fixed_point::search;
use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Offset, Service};

use super::offsets::{done_after, longest, refuse_many};
use super::task::{Demand, PeriodicTask};
use super::unbounded::{ManyJobs, UnboundedResponse};

/// Returns the bound of the response time, and the longest busy window; see [`super::response`].
pub(super) fn response(
    tasks: &[PeriodicTask],
    of: usize,
    supply: &dyn SupplyBound,
    blocking: Service,
    limit: Duration,
) -> Result<(Duration, Duration), UnboundedResponse> {
    let task = &tasks[of];
    let lower = tasks.iter().filter(|it| it.priority < task.priority);
    let section = lower
        .map(|it| it.longest_section() - Service::epsilon())
        .max();
    let blocked = blocking + section.unwrap_or_else(Service::none);
    let others = tasks.iter().enumerate();
    let others = others.filter(|(nth, it)| *nth != of && it.priority >= task.priority);
    let others: Vec<Demand<'_>> = others.map(|(_, it)| it.demand()).collect();
    let others =
        |window: Duration| -> Service { others.iter().map(|it| it.service_needed(window)).sum() };
    let own = task.demand();
    let busy = search(supply, limit, |window| {
        blocked + own.service_needed(window) + others(window)
    })?;
    refuse_many(tasks, busy, ManyJobs::InBusyWindow)?;
    let tail = task.tail_cost();
    let offsets = step_offsets(&own).take_while(|it| *it < Offset::from_time_zero(busy));
    let bounds = offsets.map(|arrival| {
        let jobs = own.service_needed(arrival.closed_since_time_zero()) - tail;
        done_after(supply, arrival, limit, tail, |window| {
            blocked + jobs + others(window)
        })
    });
    Ok((longest(bounds)?, busy))
}
