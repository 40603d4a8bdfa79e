//! What is said of tasks on runs that are made up.

use vmnoise_events::Share;

use super::super::{Judged, Policy, Verdict, judge};
use super::task;
use crate::record::{Culprit, Record};
use crate::supply::MeasuredSupply;

/// A run of so many gaps of `length`, one each `period`.
fn record(count: u64, period: u64, length: u64) -> Record {
    let mut record = Record::new(0);
    let who = record.culprit(Culprit {
        share: Share::Irq,
        name: Some("timer".into()),
    });
    for nth in 0..count {
        record.push(nth * period, length, [(who, length)].into_iter());
    }
    record.measured(0, count * period);
    record
}

fn judged(record: &Record, deadline: u64, lost_gaps: bool) -> Judged {
    let supply = MeasuredSupply::new(vec![record.taken()]);
    let tasks = [task(100, 1_000, deadline, 1)];
    judge(Policy::FixedPriority, &tasks, &supply, 0, lost_gaps)[0]
}

#[test]
fn a_task_holds_where_every_window_leaves_enough() {
    // A gap of 50 each 1,000: a job of 100 takes 150 at most, and may wait for 250 more.
    let judged = judged(&record(1_000, 1_000, 50), 400, false);
    assert_eq!(judged.response.map(|it| it.bound_ns), Some(150));
    assert_eq!(judged.verdict, Verdict::Holds);
    assert_eq!(judged.breakdown_gap.map(|it| it.ns), Some(251));
    assert_eq!(judged.windows, Some(1_000));
}

#[test]
fn a_deadline_that_a_window_breaks_may_be_missed_however_short_the_run() {
    let judged = judged(&record(3, 1_000, 50), 149, false);
    assert_eq!(judged.verdict, Verdict::MayMiss);
    assert_eq!(judged.breakdown_gap, None);
}

#[test]
fn a_run_that_holds_few_windows_or_lost_gaps_proves_nothing() {
    let judged_of = |gaps, lost| judged(&record(gaps, 1_000, 50), 400, lost).verdict;
    let short = Verdict::TooShort {
        needs_ns: Some(100_000),
    };
    assert_eq!(judged_of(99, false), short);
    assert_eq!(judged_of(100, false), Verdict::Holds);
    assert_eq!(judged_of(1_000, true), Verdict::Lost);
}

#[test]
fn more_than_was_left_is_never_done() {
    // Nineteen of twenty are taken.
    let judged = judged(&record(1_000, 1_000, 950), 1_000, false);
    assert_eq!(judged.response, None);
    let Verdict::Overloads { needs, left } = judged.verdict else {
        panic!("{judged:?}");
    };
    assert!(
        (needs - 0.1).abs() < 0.001 && (left - 0.05).abs() < 1e-9,
        "{needs} of {left}"
    );
}

#[test]
fn what_went_by_unseen_may_have_been_where_it_breaks_a_task() {
    let mut record = record(1_000, 1_000, 50);
    record.unseen_in(0, 1_000_000, 40);
    let tasks = |deadline| [task(100, 1_000, deadline, 1)];
    let judged = |deadline: u64| {
        let supply = MeasuredSupply::with_unseen(vec![record.taken()], vec![record.unseen(40)]);
        judge(Policy::FixedPriority, &tasks(deadline), &supply, 0, false)[0]
    };
    let verdicts = [149, 150, 189, 190].map(|deadline| judged(deadline).verdict);
    // What was seen breaks it, what was not may, and at last neither does.
    let expected = [
        Verdict::MayMiss,
        Verdict::Unseen,
        Verdict::Unseen,
        Verdict::Holds,
    ];
    assert_eq!(verdicts, expected);
}
