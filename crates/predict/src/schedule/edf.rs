//! Analysis of tasks that run by the earliest deadline first.

use std::collections::BTreeSet;

use response_time_analysis::demand::{RequestBound, step_offsets};
use response_time_analysis::fixed_point::search;
use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Offset, Service};

use super::offsets::{done_after, longest, refuse_many};
use super::task::PeriodicTask;
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
    let all = |window: Duration| -> Service {
        let needed = tasks.iter().map(|it| it.demand().service_needed(window));
        blocking + needed.sum::<Service>()
    };
    let busy = search(supply, limit, all)?.max(begins_blocked(tasks, task, blocking));
    let latest = tasks.iter().map(PeriodicTask::deadline).max();
    refuse_many(tasks, busy, ManyJobs::InBusyWindow)?;
    let until_latest = busy + latest.unwrap_or_else(Duration::zero);
    refuse_many(tasks, until_latest, ManyJobs::BeforeLatestDeadline)?;
    let own = task.demand();
    let tail = task.tail_cost();
    let bounds = offsets(tasks, of, busy).into_iter().map(|arrival| {
        // Deadlines of other jobs are compared with the deadline of a job that arrives at this
        // offset.
        let last = arrival.closed_since_time_zero() + task.deadline();
        let jobs = own.service_needed(arrival.closed_since_time_zero()) - tail;
        let blocked = blocking + blocked_at(tasks, task, arrival);
        done_after(supply, arrival, limit, tail, |window| {
            let others = tasks.iter().enumerate().filter(|(nth, _)| *nth != of);
            let others = others.map(|(_, it)| {
                let window = window.min(last.saturating_sub(it.deadline()));
                it.demand().service_needed(window)
            });
            blocked + jobs + others.sum::<Service>()
        })
    });
    Ok((longest(bounds)?, busy))
}

/// Returns the longest time for which another job blocks a job that arrives at this offset. The
/// other job has a later deadline, but has already begun.
fn blocked_at(tasks: &[PeriodicTask], task: &PeriodicTask, arrival: Offset) -> Service {
    let deadline = arrival.since_time_zero() + task.deadline();
    let later = tasks.iter().filter(|it| it.deadline() > deadline);
    let sections = later.map(|it| it.longest_section() - Service::epsilon());
    sections.max().unwrap_or_else(Service::none)
}

/// Returns the longest busy window in which a job with a later deadline has begun first.
fn begins_blocked(tasks: &[PeriodicTask], task: &PeriodicTask, blocking: Service) -> Duration {
    let later = tasks.iter().filter(|it| it.deadline() > task.deadline());
    let lengths = later.map(|late| {
        let before = tasks.iter().filter(|it| it.deadline() <= late.deadline());
        let before = before.map(|it| {
            let window = late.deadline() - it.deadline();
            it.demand().service_needed(window)
        });
        let section = late.longest_section() - Service::epsilon();
        Duration::from(blocking + section + before.sum::<Service>())
    });
    lengths.max().unwrap_or_else(Duration::zero)
}

/// Returns the offsets at which the arrival with the longest response time may be. At these
/// offsets, jobs of the task arrive, jobs of other tasks arrive with the same deadline, or a job
/// with a later deadline no longer blocks.
fn offsets(tasks: &[PeriodicTask], of: usize, busy: Duration) -> BTreeSet<Offset> {
    let task = &tasks[of];
    let end = Offset::from_time_zero(busy);
    let mut offsets = BTreeSet::new();
    for (nth, other) in tasks.iter().enumerate() {
        let demand = other.demand();
        let shifted = step_offsets(&demand).map(|step| match nth == of {
            true => Some(step),
            false => (step + other.deadline())
                .since_time_zero()
                .checked_sub(task.deadline())
                .map(Offset::from_time_zero),
        });
        offsets.extend(
            shifted
                .take_while(|it| it.is_none_or(|it| it < end))
                .flatten(),
        );
        let stops = other.deadline().saturating_sub(task.deadline());
        offsets.insert(Offset::from_time_zero(stops));
    }
    offsets.retain(|it| *it < end);
    offsets
}

/// Checked subtraction, which [`Duration`] lacks.
trait CheckedSub: Sized {
    fn checked_sub(self, less: Self) -> Option<Self>;
}

impl CheckedSub for Duration {
    fn checked_sub(self, less: Duration) -> Option<Duration> {
        (self >= less).then(|| self - less)
    }
}
