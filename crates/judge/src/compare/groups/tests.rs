//! Verdicts on groups of numbers, and how often chance looks like a difference.

use proptest::prelude::*;

use super::*;
use crate::compare::ComparedFigure;

/// Compares two groups of runs. Each pair has the values of one figure before and after the change.
fn groups(figures: &[(Vec<f64>, Vec<f64>)]) -> Groups {
    let rows = figures.iter().map(|(before, after)| {
        let known = |values: &[f64]| values.iter().copied().map(Some).collect();
        row(ComparedFigure::Noise, known(before), known(after))
    });
    let (before, after) = &figures[0];
    judged(rows.collect(), before.len(), after.len())
}

fn numbers(from: u32, count: u32) -> Vec<f64> {
    (from..from + count).map(f64::from).collect()
}

#[test]
fn three_against_three_tell_nothing_and_four_are_what_it_takes() {
    let found = groups(&[(numbers(0, 3), numbers(10, 3))]);
    let row = &found.rows[0];
    assert_eq!(row.verdict, GroupVerdict::TooFewRuns);
    assert!((row.p.unwrap() - 0.1).abs() < 1e-12, "{row:?}");
    assert_eq!((row.shift, row.interval), (Some(10.0), None));
    // p is 2 / 70 with four runs in each group.
    assert_eq!((found.tested, found.needed), (1, Some(4)));
    let found = groups(&[(numbers(0, 4), numbers(10, 4))]);
    assert_eq!(found.rows[0].verdict, GroupVerdict::Different);
    assert!(!found.are_too_few());
}

#[test]
fn many_figures_at_once_ask_for_more_runs() {
    let twelve = |runs| vec![(numbers(0, runs), numbers(100, runs)); 12];
    // The corrected p is 12 * 2 / 252 = 0.095 with five runs, and 12 * 2 / 924 = 0.026 with six
    // runs.
    let found = groups(&twelve(5));
    assert_eq!((found.tested, found.needed), (12, Some(6)));
    assert_eq!(found.rows[7].verdict, GroupVerdict::TooFewRuns);
    let found = groups(&twelve(6));
    assert_eq!(found.rows[7].verdict, GroupVerdict::Different);
    assert!((found.rows[7].corrected_p.unwrap() - 24.0 / 924.0).abs() < 1e-12);
}

#[test]
fn what_all_runs_have_alike_is_no_test() {
    let alike = (vec![7.0; 6], vec![7.0; 6]);
    let found = groups(&[alike, (numbers(0, 6), numbers(10, 6))]);
    assert_eq!(found.rows[0].verdict, GroupVerdict::Untested);
    assert_eq!((found.rows[0].p, found.tested), (None, 1));
    assert_eq!(found.rows[0].medians, Some((7.0, 7.0)));
    let unknown = row(
        ComparedFigure::Noise,
        vec![Some(1.0), None],
        vec![Some(2.0)],
    );
    assert_eq!(
        (unknown.medians, unknown.shift, unknown.p),
        (None, None, None)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Tries all ways to label six of twelve runs "before". At most one way in twenty may make any
    /// figure different. The figures of one run depend on each other, as in reality.
    #[test]
    fn labels_that_mean_nothing_seldom_show_anything(
        runs in prop::collection::vec((0u8..20, 0u8..20, 0u8..3), 12),
    ) {
        let (mut labellings, mut wrong) = (0, 0);
        for chosen in (0u32..1 << 12).filter(|it| it.count_ones() == 6) {
            let of = |figure: fn(&(u8, u8, u8)) -> u8| {
                let split = |wanted: bool| {
                    let runs = runs.iter().enumerate();
                    let runs = runs.filter(|(at, _)| (chosen >> at & 1 == 1) == wanted);
                    runs.map(|(_, run)| f64::from(figure(run))).collect::<Vec<_>>()
                };
                (split(true), split(false))
            };
            let found = groups(&[of(|run| run.0), of(|run| run.0 / 4 + run.1), of(|run| run.2)]);
            labellings += 1;
            wrong += u32::from(found.rows.iter().any(|row| row.verdict == GroupVerdict::Different));
        }
        prop_assert_eq!(labellings, 924);
        prop_assert!(f64::from(wrong) <= LEVEL * f64::from(labellings), "{}", wrong);
    }
}
