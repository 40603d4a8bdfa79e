//! Tests the reasons for which a response time has no bound.

use response_time_analysis::supply::Dedicated;

use super::super::{ManyJobs, PeriodicTask, ScheduleOrder, UnboundedResponse, response};
use super::task;

/// Limit of the bounds. All busy windows that end are shorter.
const LIMIT_NS: u64 = 10_000_000;

/// Returns the reason why the first task has no bound, for fixed priorities, EDF and FIFO.
fn reasons(tasks: &[PeriodicTask]) -> [Option<UnboundedResponse>; 3] {
    let policies = [
        ScheduleOrder::FixedPriority,
        ScheduleOrder::Edf,
        ScheduleOrder::Fifo,
    ];
    policies.map(|policy| response(policy, tasks, 0, &Dedicated::new(), 0, LIMIT_NS).err())
}

/// Both tasks are busy for 600,000 ns. In this time, 300,000 jobs of the second task arrive.
#[test]
fn too_many_jobs_in_the_busy_window_are_a_reason() {
    let tasks = [task(300_000, 1_000_000, 1_000_000, 1), task(1, 2, 2, 2)];
    let reason = UnboundedResponse::TooMany(ManyJobs::InBusyWindow);
    assert_eq!(reasons(&tasks), [Some(reason); 3]);
}

/// The tasks are busy for 2 ns. Before the deadline of the first task, 250,000 jobs of the second
/// one arrive. Only EDF compares their deadlines.
#[test]
fn too_many_jobs_before_the_latest_deadline_are_another_reason() {
    let tasks = [task(1, 1_000_000, 1_000_000, 1), task(1, 4, 4, 2)];
    let reason = UnboundedResponse::TooMany(ManyJobs::BeforeLatestDeadline);
    assert_eq!(reasons(&tasks), [None, Some(reason), None]);
}

/// The tasks need 125 % of the CPU, so they are always busy.
#[test]
fn no_bound_below_the_limit_is_a_third_reason() {
    let tasks = [task(3, 4, 4, 1), task(2, 4, 4, 2)];
    assert_eq!(reasons(&tasks), [Some(UnboundedResponse::AboveLimit); 3]);
}
