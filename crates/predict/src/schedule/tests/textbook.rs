//! Examples from textbooks and papers, with their printed results.

use response_time_analysis::supply::Dedicated;

use super::super::{Preemption, ScheduleOrder, breakdown_gap, response};
use super::task;

fn bound(
    policy: ScheduleOrder,
    tasks: &[super::PeriodicTask],
    of: usize,
    blocking_ns: u64,
) -> Option<u64> {
    let found = response(policy, tasks, of, &Dedicated::new(), blocking_ns, 10_000);
    found.ok().map(|it| it.bound_ns)
}

/// Burns and Wellings, Real-Time Systems and Programming Languages, 3rd edition, chapter 13, task
/// set D. The response times are 3, 6 and 20.
#[test]
fn fixed_priorities_as_burns_and_wellings_have_them() {
    let tasks = [task(3, 7, 7, 3), task(3, 12, 12, 2), task(5, 20, 20, 1)];
    let found = [0, 1, 2].map(|of| bound(ScheduleOrder::FixedPriority, &tasks, of, 0));
    assert_eq!(found, [Some(3), Some(6), Some(20)]);
    // The last task ends exactly at its deadline. The other two end four and five before their
    // deadlines.
    let gap = |of| {
        let dedicated = Dedicated::new();
        let gap = breakdown_gap(
            ScheduleOrder::FixedPriority,
            &tasks,
            of,
            &dedicated,
            0,
            10_000,
        );
        gap.map(|it| it.ns)
    };
    assert_eq!([0, 1, 2].map(gap), [Some(5), Some(4), Some(1)]);
}

/// Lehoczky, "Fixed priority scheduling of periodic task sets with arbitrary deadlines", RTSS 1990.
/// The tasks are (26, 70) and (62, 100). Of the second task, the fifth job has the longest response
/// time (118), not the first job.
#[test]
fn a_later_job_may_wait_longer_than_the_first() {
    let tasks = [task(26, 70, 70, 2), task(62, 100, 120, 1)];
    assert_eq!(bound(ScheduleOrder::FixedPriority, &tasks, 1, 0), Some(118));
}

/// Davis, Burns, Bril and Lukkien, "Controller Area Network schedulability analysis: refuted,
/// revisited and revised", Real-Time Systems 35 (2007), table 1. Messages of 1 ms cannot be
/// preempted and have periods of 2.5, 3.5 and 3.5 ms. The second instance of the third message
/// takes 3.5 ms, the first instance only 3 ms.
#[test]
fn without_preemption_a_later_job_may_wait_longer() {
    let mut tasks = [
        task(10, 25, 25, 3),
        task(10, 35, 33, 2),
        task(10, 35, 33, 1),
    ];
    for task in &mut tasks {
        task.preemption = Preemption::None;
    }
    assert_eq!(bound(ScheduleOrder::FixedPriority, &tasks, 2, 0), Some(35));
}

/// The example in the quickstart of the PyPI package response-time-analysis 0.1.1.
#[test]
fn the_three_policies_differ() {
    let tasks = [task(1, 5, 5, 2), task(6, 10, 9, 1)];
    let found = [
        ScheduleOrder::FixedPriority,
        ScheduleOrder::Edf,
        ScheduleOrder::Fifo,
    ];
    let found = found.map(|policy| bound(policy, &tasks, 1, 0));
    assert_eq!(found, [Some(8), Some(7), Some(7)]);
}

/// A timer latency blocks each task once: Abeni and Faggioli.
#[test]
fn blocking_delays_all() {
    let tasks = [task(3, 7, 7, 3), task(3, 12, 12, 2)];
    assert_eq!(bound(ScheduleOrder::FixedPriority, &tasks, 0, 2), Some(5));
    assert_eq!(bound(ScheduleOrder::FixedPriority, &tasks, 1, 1), Some(7));
    // With a blocking of two, a second job of the first task arrives before the second task is
    // done.
    assert_eq!(bound(ScheduleOrder::FixedPriority, &tasks, 1, 2), Some(11));
}
