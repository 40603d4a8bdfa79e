//! Compares the supply with a naive implementation that tries every window.

use proptest::prelude::*;
use vmnoise_events::Share;

use super::{BoundedDelay, MeasuredSupply, Worst, longest_for, taken_in_turn, worst_window};
use crate::record::{CpuRecord, RecordCulprit};
use crate::taken::TakenTime;

/// Returns a record of a run that begins at 100. Each gap is a tuple of `pause`, `ours` and rest:
/// the pause before the gap, the time that one culprit takes, and the time that another culprit
/// takes.
fn record(gaps: &[(u64, u64, u64)], rest_ns: u64) -> CpuRecord {
    let mut record = CpuRecord::new(3);
    let of = |name: &str| RecordCulprit {
        share: Share::Thread,
        name: Some(name.into()),
    };
    let (ours, others) = (record.culprit(of("ours")), record.culprit(of("others")));
    let mut now_ns = 100;
    for (pause_ns, length_ns, ours_ns) in gaps {
        let ours_ns = *ours_ns.min(length_ns);
        now_ns += pause_ns;
        let parts = [(ours, ours_ns), (others, length_ns - ours_ns)];
        record.push(now_ns, *length_ns, parts.into_iter());
        now_ns += length_ns;
    }
    record.measured(100, now_ns + rest_ns);
    record
}

/// Returns the maximum time that may be taken in a window, for any position of the taken time
/// within its gap.
fn held_ns(taken: &TakenTime<'_>, begin_ns: u64, length_ns: u64) -> u64 {
    let end_ns = begin_ns + length_ns;
    let gaps = taken.begins_ns.iter().zip(taken.lengths_ns);
    let held = gaps.zip(taken.taken_ns()).map(|((from_ns, ns), taken_ns)| {
        let overlap_ns = end_ns
            .min(from_ns + ns)
            .saturating_sub(begin_ns.max(*from_ns));
        overlap_ns.min(*taken_ns)
    });
    held.sum()
}

fn naive_worst_ns(taken: &TakenTime<'_>, length_ns: u64) -> Option<u64> {
    let last_ns = taken.to_ns.checked_sub(length_ns)?;
    let begins = taken.from_ns..=last_ns;
    begins.map(|it| held_ns(taken, it, length_ns)).max()
}

fn gaps() -> impl Strategy<Value = (Vec<(u64, u64, u64)>, u64)> {
    let gap = (0_u64..12, 0_u64..12, 0_u64..15);
    (proptest::collection::vec(gap, 0..9), 0_u64..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_window_holds_more_than_the_worst((gaps, rest_ns) in gaps()) {
        let record = record(&gaps, rest_ns);
        for taken in [record.taken(), record.taken_by(|it| it.name.as_deref() == Some("ours"))] {
            for length_ns in 0..taken.span_ns() + 3 {
                let worst = worst_window(&taken, length_ns);
                prop_assert_eq!(worst.map(|it| it.taken_ns), naive_worst_ns(&taken, length_ns));
                if let Some(Worst { begin_ns, taken_ns }) = worst {
                    prop_assert_eq!(held_ns(&taken, begin_ns, length_ns), taken_ns);
                    let by: u64 = record.taken_in(begin_ns, length_ns).iter().map(|(_, ns)| ns).sum();
                    prop_assert_eq!(by, held_ns(&record.taken(), begin_ns, length_ns));
                }
            }
        }
    }

    #[test]
    fn nor_in_a_run_of_many_blocks(
        gaps in proptest::collection::vec((0_u64..12, 0_u64..12, 0_u64..15), 0..150), lengths_ns in proptest::collection::vec(0_u64..2_000, 8),
    ) {
        let record = record(&gaps, 3);
        for taken in [record.taken(), record.taken_by(|it| it.name.as_deref() == Some("ours")), record.taken().first(0.7)] {
            for length_ns in &lengths_ns {
                let worst = worst_window(&taken, *length_ns);
                prop_assert_eq!(worst.map(|it| it.taken_ns), naive_worst_ns(&taken, *length_ns));
                if let Some(Worst { begin_ns, taken_ns }) = worst {
                    prop_assert_eq!(held_ns(&taken, begin_ns, *length_ns), taken_ns);
                }
            }
        }
    }

    #[test]
    fn every_window_of_that_length_left_as_much_and_no_shorter_length_did((gaps, rest_ns) in gaps()) {
        let record = record(&gaps, rest_ns);
        for taken in [record.taken(), record.taken_by(|it| it.name.as_deref() == Some("ours"))] {
            let left_ns = |length_ns| naive_worst_ns(&taken, length_ns).map(|held_ns| length_ns - held_ns);
            for supply_ns in 0..taken.span_ns() + 3 {
                let expected = (0..=taken.span_ns()).find(|it| left_ns(*it) >= Some(supply_ns));
                prop_assert_eq!(longest_for(&taken, supply_ns), expected, "{}", supply_ns);
            }
        }
    }

    #[test]
    fn the_line_is_nowhere_above_what_was_left_and_touches_it((gaps, rest_ns) in gaps(), percent in 1_u32..=100) {
        let record = record(&gaps, rest_ns);
        for taken in [record.taken(), record.taken_by(|it| it.name.as_deref() == Some("ours"))] {
            let supply = MeasuredSupply::new(vec![taken]);
            let BoundedDelay { rate, delay_ns } = supply.bounded_delay(f64::from(percent) / 100.0);
            let lengths_ns = 0..=supply.longest_run_ns();
            let delays_ns = lengths_ns.map(|it| it as f64 - supply.least_ns(it) as f64 / rate);
            let most_ns = delays_ns.fold(0.0, f64::max);
            prop_assert!((delay_ns - most_ns).abs() < 1e-6, "{} {}", delay_ns, most_ns);
        }
    }

    #[test]
    fn what_was_not_asked_is_bounded_from_below((gaps, rest_ns) in gaps(), asked in proptest::collection::vec(0_u64..300, 1..6)) {
        let record = record(&gaps, rest_ns);
        let supply = MeasuredSupply::new(vec![record.taken()]);
        for length_ns in asked {
            supply.least_ns(length_ns);
        }
        let exact = MeasuredSupply::new(vec![record.taken()]);
        let lengths_ns = 0..=supply.longest_run_ns();
        for length_ns in lengths_ns.clone() {
            prop_assert!(supply.at_least_ns(length_ns) <= exact.least_ns(length_ns));
            let first = lengths_ns.clone().find(|it| supply.at_least_ns(*it) >= length_ns);
            prop_assert_eq!(supply.at_least_length_ns(length_ns), first);
        }
    }

    #[test]
    fn two_runs_leave_what_the_worse_one_leaves((a, rest_a) in gaps(), (b, rest_b) in gaps(), asked in 0_u64..200) {
        let records = [record(&a, rest_a), record(&b, rest_b)];
        let supply = MeasuredSupply::new(records.iter().map(CpuRecord::taken).collect());
        let longest_ns = supply.longest_run_ns();
        for length_ns in 0..=longest_ns {
            // A window that is longer than a run contains all taken time of the run.
            let taken = records.iter().map(CpuRecord::taken);
            let taken_ns = taken.map(|it| naive_worst_ns(&it, length_ns).unwrap_or(it.total_ns()));
            prop_assert_eq!(supply.least_ns(length_ns), length_ns - taken_ns.max().unwrap());
        }
        for supply_ns in 0..=longest_ns {
            let length_ns = supply.length_for_ns(supply_ns);
            let first = (0..=longest_ns).find(|it| supply.least_ns(*it) >= supply_ns);
            prop_assert_eq!((length_ns <= longest_ns).then_some(length_ns), first);
        }
        let stepped = MeasuredSupply::new(records.iter().map(CpuRecord::taken).collect());
        stepped.least_ns(asked);
        stepped.least_ns(longest_ns);
        for length_ns in 0..=longest_ns {
            prop_assert!(stepped.at_least_ns(length_ns) <= supply.least_ns(length_ns));
        }
    }

    #[test]
    fn windows_that_follow_one_another_hold_what_each_holds((gaps, rest_ns) in gaps(), length_ns in 1_u64..40) {
        let record = record(&gaps, rest_ns);
        for taken in [record.taken(), record.taken_by(|it| it.name.as_deref() == Some("ours"))] {
            let begins = (0..taken.span_ns() / length_ns).map(|nth| taken.from_ns + nth * length_ns);
            let expected: Vec<u64> = begins.map(|it| held_ns(&taken, it, length_ns)).collect();
            prop_assert_eq!(taken_in_turn(&taken, length_ns).collect::<Vec<_>>(), expected.clone());
            let supply = MeasuredSupply::new(vec![taken]);
            let (windows, mut largest) = supply.largest_in_turn_ns(length_ns, 3);
            largest.sort_unstable();
            let mut ascending = expected;
            ascending.sort_unstable();
            prop_assert_eq!(windows, ascending.len() as u64);
            prop_assert_eq!(largest, ascending.split_off(ascending.len().saturating_sub(3)));
        }
    }

    #[test]
    fn wherever_nobody_looked_no_window_left_less(
        (gaps, rest_ns) in gaps(), cuts in proptest::collection::vec((0_u64..150, 0_u64..9), 0..5), anywhere_ns in 0_u64..4, seed: u64,
    ) {
        let mut record = record(&gaps, rest_ns);
        let seen = record.taken();
        let is_gap = |ns: &u64| held_ns(&seen, *ns, 1) > 0;
        let mut left: Vec<u64> = (seen.from_ns..seen.to_ns).filter(|it| !is_gap(it)).collect();
        let (mut random, mut hidden, mut from_ns, to_ns) = (fastrand::Rng::with_seed(seed), Vec::<u64>::new(), seen.from_ns, seen.to_ns);
        let mut hide = |left: &mut Vec<u64>, (from_ns, to_ns), most: u64| {
            let mut inside: Vec<u64> = left.iter().copied().filter(|it| (from_ns..to_ns).contains(it)).collect();
            random.shuffle(&mut inside);
            inside.truncate(most as usize);
            left.retain(|it| !inside.contains(it));
            hidden.extend(&inside);
            inside.len() as u64
        };
        for (length_ns, most) in cuts {
            let until_ns = (from_ns + length_ns).min(to_ns);
            let unseen_ns = hide(&mut left, (from_ns, until_ns), most);
            record.unseen_in(from_ns, until_ns, unseen_ns);
            from_ns = until_ns;
        }
        hide(&mut left, (0, u64::MAX), anywhere_ns);
        let unseen = record.unseen(hidden.len() as u64);
        prop_assert_eq!(unseen.total_ns(), hidden.len() as u64);
        let supply = MeasuredSupply::with_unseen(vec![record.taken()], vec![unseen]);
        let span_ns = supply.longest_run_ns();
        let is_left = |ns: u64| left.binary_search(&ns).is_ok();
        let left_ns = |length_ns: u64| {
            let windows = record.from_ns()..=record.from_ns() + span_ns - length_ns;
            windows.map(|it| (it..it + length_ns).filter(|it| is_left(*it)).count() as u64).min()
        };
        let line = supply.bounded_delay(supply.rate().max(0.01));
        for length_ns in 0..=span_ns {
            let least_ns = left_ns(length_ns).unwrap();
            prop_assert!(supply.least_ns(length_ns) <= least_ns, "{}", length_ns);
            prop_assert!(line.rate * (length_ns as f64 - line.delay_ns) <= least_ns as f64 + 1e-6, "{}", length_ns);
            let for_ns = supply.length_for_ns(length_ns);
            prop_assert!(for_ns > span_ns || left_ns(for_ns).unwrap() >= length_ns, "{}", length_ns);
            if hidden.is_empty() {
                prop_assert_eq!(supply.least_ns(length_ns), least_ns);
            }
        }
    }

    #[test]
    fn what_culprits_took_adds_up((gaps, rest_ns) in gaps()) {
        let record = record(&gaps, rest_ns);
        let of = |name: &str| record.taken_by(|it| it.name.as_deref() == Some(name)).total_ns();
        prop_assert_eq!(of("ours") + of("others"), record.taken().total_ns());
        prop_assert_eq!(record.totals_ns(), vec![of("ours"), of("others")]);
    }
}

#[test]
fn a_gap_that_overlaps_the_one_before_is_cut() {
    let mut record = CpuRecord::new(0);
    let who = record.culprit(RecordCulprit {
        share: Share::Hw,
        name: None,
    });
    record.push(10, 10, [(who, 10)].into_iter());
    record.push(15, 10, [(who, 10)].into_iter());
    record.measured(0, 22);
    // Five nanoseconds of the second gap are after the first gap, and the run ends with the second
    // gap.
    assert_eq!(record.taken().total_ns(), 15);
    assert_eq!(record.span_ns(), 25);
    let worst = worst_window(&record.taken(), 15);
    assert_eq!(
        worst,
        Some(Worst {
            begin_ns: 10,
            taken_ns: 15
        })
    );
}

#[test]
fn a_gap_inside_of_the_one_before_takes_nothing_and_hides_no_later_one() {
    let mut record = CpuRecord::new(0);
    let who = record.culprit(RecordCulprit {
        share: Share::Hw,
        name: None,
    });
    for (begin_ns, length_ns) in [(10, 20), (12, 3), (25, 10)] {
        record.push(begin_ns, length_ns, [(who, length_ns)].into_iter());
    }
    record.measured(0, 50);
    assert_eq!(record.taken().total_ns(), 25);
}

#[test]
fn what_went_by_unseen_counts_where_it_may_have_been() {
    let mut record = CpuRecord::new(0);
    record.push(1_000, 10, std::iter::empty());
    record.measured(0, 4_096);
    record.unseen_in(0, 2_048, 7);
    record.unseen_in(2_048, 4_096, 2);
    // Five of the 14 unobserved nanoseconds belong to no interval.
    let unseen = record.unseen(14);
    let supply = MeasuredSupply::with_unseen(vec![record.taken()], vec![unseen]);
    // A window of 10 lies within the gap. A window of 64 may contain all unobserved time of two
    // neighbouring intervals, and the time that belongs to no interval.
    assert_eq!(supply.least_ns(10), 0);
    assert_eq!(supply.least_ns(64), 64 - 10 - 14);
    assert_eq!(supply.as_seen().least_ns(64), 64 - 10);
    assert_eq!(supply.length_for_ns(40), 64);
}
