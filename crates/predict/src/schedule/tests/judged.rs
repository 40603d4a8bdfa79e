//! Tests the verdicts on tasks for generated runs.

use vmnoise_events::coverage::{BlindSpot, Coverage, CpuCoverage, Question, RunEnd};
use vmnoise_events::fixtures::facts;
use vmnoise_events::{MeasuringCommand, Share};

use super::super::{DeadlineVerdict, ScheduleOrder, TaskVerdict, judge};
use super::task;
use crate::record::{CpuRecord, RecordCulprit};
use crate::supply::MeasuredSupply;

/// Returns a record with `count` gaps of `length`, one gap in each `period`.
fn record(count: u64, period: u64, length: u64) -> CpuRecord {
    let mut record = CpuRecord::new(0);
    let who = record.culprit(RecordCulprit {
        share: Share::Irq,
        name: Some("timer".into()),
    });
    for nth in 0..count {
        record.push(nth * period, length, [(who, length)].into_iter());
    }
    record.measured(0, count * period);
    record
}

/// Returns the coverage of a polling thread on CPU 1 after a call of `change`.
fn coverage(change: impl FnOnce(&mut Coverage)) -> Coverage {
    let mut coverage = Coverage::of(&facts(MeasuringCommand::Osnoise));
    coverage.end = RunEnd::InOrder;
    coverage.cpus = vec![CpuCoverage {
        window_mono_ns: Some((0, 1)),
        ..CpuCoverage::of(1)
    }];
    change(&mut coverage);
    coverage
}

fn judged(record: &CpuRecord, deadline: u64, coverage: &Coverage) -> TaskVerdict {
    let supply = MeasuredSupply::new(vec![record.taken()]);
    let tasks = [task(100, 1_000, deadline, 1)];
    let blind_spots = |question| coverage.blind_spots(question);
    judge(
        ScheduleOrder::FixedPriority,
        &tasks,
        &supply,
        0,
        &blind_spots,
    )
    .remove(0)
}

#[test]
fn a_task_holds_where_every_window_leaves_enough() {
    // There is a gap of 50 ns in each 1,000 ns. So a job of 100 ns takes 150 ns at most, and may be
    // delayed for another 250 ns.
    let judged = judged(&record(1_000, 1_000, 50), 400, &coverage(|_| {}));
    assert_eq!(judged.response.map(|it| it.bound_ns), Some(150));
    assert_eq!(judged.verdict, DeadlineVerdict::Holds);
    assert_eq!(judged.breakdown_gap.map(|it| it.ns), Some(251));
    assert_eq!(judged.windows, Some(1_000));
    // There is no miss in a million nanoseconds. If 4.6 misses were expected, one case in a hundred
    // would have no miss.
    assert_eq!(judged.excluded_every_ns, Some(217_155));
}

#[test]
fn a_deadline_that_a_window_breaks_may_be_missed_however_short_the_run() {
    let judged = judged(&record(3, 1_000, 50), 149, &coverage(|_| {}));
    assert_eq!(judged.verdict, DeadlineVerdict::MayMiss);
    assert_eq!(judged.breakdown_gap, None);
}

#[test]
fn a_run_that_holds_few_windows_or_lost_gaps_proves_nothing() {
    let judged_of = |gaps, lost| {
        let coverage = coverage(|it| it.lost.gaps = lost);
        judged(&record(gaps, 1_000, 50), 400, &coverage).verdict
    };
    let short = DeadlineVerdict::TooShort {
        needs_ns: Some(100_000),
    };
    assert_eq!(judged_of(99, 0), short);
    assert_eq!(judged_of(100, 0), DeadlineVerdict::Holds);
    assert_eq!(judged_of(1_000, 1), DeadlineVerdict::Blind);
}

/// If gaps that break the task came at random, with the excluded mean time between them, hardly any
/// of 1,000 recordings would give the verdict `Holds`.
#[test]
fn a_set_that_misses_more_often_than_is_excluded_would_have_been_seen() {
    let span_ns = 100_000;
    let recorded = |broken_at_ns: &[u64]| {
        let mut record = CpuRecord::new(0);
        let who = record.culprit(RecordCulprit {
            share: Share::Irq,
            name: Some("timer".into()),
        });
        for at_ns in broken_at_ns {
            record.push(*at_ns, 400, [(who, 400)].into_iter());
        }
        record.measured(0, span_ns);
        judged(&record, 400, &coverage(|_| {}))
    };
    let excluded_ns = recorded(&[]).excluded_every_ns.unwrap();
    // The recording has 100 windows, so misses are excluded down to one in 21.7 windows.
    assert_eq!(excluded_ns, 21_715);
    let mut random = fastrand::Rng::with_seed(35);
    let holds = (0..1_000).filter(|_| {
        let mut at_ns = Vec::new();
        let mut now_ns = 0.0;
        loop {
            now_ns -= excluded_ns as f64 * (1.0 - random.f64()).ln();
            match now_ns + 400.0 < span_ns as f64 {
                true => at_ns.push(now_ns as u64),
                false => break recorded(&at_ns).verdict == DeadlineVerdict::Holds,
            }
        }
    });
    let holds = holds.count();
    // The number is binomial with n = 1,000 and p = 0.01: its mean is 10, and its standard
    // deviation is 3.1. The upper bound is four deviations above the mean.
    assert!((1..=23).contains(&holds), "{holds}");
}

#[test]
fn more_than_was_left_is_never_done() {
    // The gaps take nineteen of twenty nanoseconds.
    let judged = judged(&record(1_000, 1_000, 950), 1_000, &coverage(|_| {}));
    assert_eq!(judged.response, None);
    let DeadlineVerdict::Overloads { needs, left } = judged.verdict else {
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
        let coverage = coverage(|it| it.cpus[0].unplaced_ns = 40);
        let blind_spots = |question| coverage.blind_spots(question);
        judge(
            ScheduleOrder::FixedPriority,
            &tasks(deadline),
            &supply,
            0,
            &blind_spots,
        )
        .remove(0)
    };
    let verdicts = [149, 150, 189, 190].map(|deadline| judged(deadline).verdict);
    let words = |deadline| -> Vec<String> {
        let spots = judged(deadline).blind_spots;
        spots.iter().map(BlindSpot::to_string).collect()
    };
    assert!(words(150)[0].contains("40 ns"), "{:?}", words(150));
    assert_eq!([149, 190].map(words), [const { Vec::<String>::new() }; 2]);
    // Observed time breaks the first deadline. Unobserved time may break the next two. The last
    // deadline is met.
    let expected = [
        DeadlineVerdict::MayMiss,
        DeadlineVerdict::Blind,
        DeadlineVerdict::Blind,
        DeadlineVerdict::Holds,
    ];
    assert_eq!(verdicts, expected);
}

/// Gaps below the threshold take 1.9 of every 4 ms. The recording does not show these gaps, so
/// without the blind spot the set would hold.
#[test]
fn what_is_too_short_to_be_recorded_may_break_a_task() {
    let blind = coverage(|it| it.threshold_ns = 2_000_000);
    let found = judged(&record(1_000, 1_000, 0), 400, &blind);
    assert_eq!(found.verdict, DeadlineVerdict::Blind);
    let spots = blind.blind_spots(Question::Taken);
    assert_eq!((found.blind_spots.len(), spots.len()), (1, 1));
    assert_eq!(found.blind_spots, spots);
    // The observed time alone is already too much, so the blind spot does not matter.
    let missed = judged(&record(1_000, 1_000, 50), 149, &blind);
    assert_eq!(missed.verdict, DeadlineVerdict::MayMiss);
}

/// The data have gaps of 50 ns, so a job of 100 ns takes up to 150 ns and misses its deadline. The
/// miss counts although time is hidden, but not if the data are damaged or of another machine.
#[test]
fn a_miss_in_unusable_data_proves_nothing() {
    let found = |change: fn(&mut Coverage)| {
        let missed = judged(&record(1_000, 1_000, 50), 149, &coverage(change));
        // The gaps take 95 % of the time, and the task needs 10 %.
        let overloaded = judged(&record(1_000, 1_000, 950), 1_000, &coverage(change));
        [missed, overloaded]
    };
    let unusable: [fn(&mut Coverage); 2] = [
        |it| it.others.push("elsewhere.vmn".into()),
        |it| it.more_taken_than_measured = true,
    ];
    for verdict in unusable.into_iter().flat_map(found) {
        assert_eq!(verdict.verdict, DeadlineVerdict::Blind);
        let spots = &verdict.blind_spots;
        assert_eq!(spots.len(), 1, "{spots:?}");
        assert!(spots[0].makes_data_unusable(), "{spots:?}");
    }
    let hidden: [fn(&mut Coverage); 4] = [
        |it| it.lost.gaps = 1,
        |it| it.end = RunEnd::CutOff,
        |it| it.clock.went_back_at_ns = Some(1),
        |it| it.workload = MeasuringCommand::Observed,
    ];
    for [missed, overloaded] in hidden.map(found) {
        assert_eq!(missed.verdict, DeadlineVerdict::MayMiss);
        let is_overload = matches!(overloaded.verdict, DeadlineVerdict::Overloads { .. });
        assert!(is_overload, "{overloaded:?}");
    }
}

/// Without the foreign data, the lost gaps would decide. So the verdict names both.
#[test]
fn unusable_data_that_hold_are_blind_for_every_reason() {
    let blind = coverage(|it| {
        it.others.push("elsewhere.vmn".into());
        it.lost.gaps = 1;
    });
    let found = judged(&record(1_000, 1_000, 50), 400, &blind);
    assert_eq!(found.verdict, DeadlineVerdict::Blind);
    assert_eq!(found.blind_spots, blind.blind_spots(Question::Taken));
}

/// Some work has a priority between the recorder and the lower of two tasks. It delays only this
/// task.
#[test]
fn a_recorder_says_nothing_of_tasks_behind_it() {
    let blind = coverage(|it| it.policy = Some(vmnoise_events::Policy::Fifo(50)));
    let record = record(1_000, 10_000, 50);
    let supply = MeasuredSupply::new(vec![record.taken()]);
    let tasks = [task(100, 10_000, 400, 80), task(100, 10_000, 4_000, 20)];
    let blind_spots = |question| blind.blind_spots(question);
    let judged = judge(
        ScheduleOrder::FixedPriority,
        &tasks,
        &supply,
        0,
        &blind_spots,
    );
    let verdicts: Vec<DeadlineVerdict> = judged.iter().map(|it| it.verdict).collect();
    assert_eq!(verdicts, [DeadlineVerdict::Holds, DeadlineVerdict::Blind]);
}

/// If jobs come a year apart, the recording need not be a hundred years long.
#[test]
fn a_period_is_no_window_of_the_supply() {
    let record = record(99, 1_000, 50);
    let supply = MeasuredSupply::new(vec![record.taken()]);
    let tasks = [task(100, 365 * 86_400 * 1_000_000_000, 400, 1)];
    let whole = coverage(|_| {});
    let blind_spots = |question| whole.blind_spots(question);
    let judged = judge(
        ScheduleOrder::FixedPriority,
        &tasks,
        &supply,
        0,
        &blind_spots,
    );
    let needs_ns = Some(100_000_000_000);
    assert_eq!(judged[0].verdict, DeadlineVerdict::TooShort { needs_ns });
}
