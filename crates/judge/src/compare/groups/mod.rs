//! Decides whether two groups of runs differ, before and after a change. The test uses whole runs.
//!
//! Each run gives one number for each figure. Windows of one run do not show how much runs differ
//! from each other, so they are not used here.

mod rank_sum;
mod shift;

use rank_sum::{least_p, mann_whitney};
use serde::Serialize;
use shift::{Differences, median};

pub use shift::ShiftInterval;

use super::figure::ComparedFigure;
use super::measured::RunFigures;
use super::ranks::holm;
use super::verdict::figures_of;

/// Highest probability that chance alone makes any figure of a comparison different. Also the
/// highest probability that an interval does not contain the true shift.
pub const LEVEL: f64 = 0.05;

/// Largest number of runs in a group. For more runs, the exact distribution would take seconds to
/// compute.
pub const MOST_RUNS: usize = 50;

/// Verdict on one figure of two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupVerdict {
    /// The groups differ.
    Different,
    /// The difference may be chance.
    NotShown,
    /// With so few runs, even the largest possible difference may be chance.
    TooFewRuns,
    /// The figure is unknown in some run, or has the same value in all runs.
    Untested,
}

/// Comparison of one figure of two groups. Values are in the figure's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRow {
    /// The compared figure.
    pub figure: ComparedFigure,
    /// Value of each run before the change; `None` if unknown.
    pub before: Vec<Option<f64>>,
    /// Value of each run after the change; `None` if unknown.
    pub after: Vec<Option<f64>>,
    /// Median of the group before the change, and median of the group after it; `None` if the
    /// figure is unknown in some run.
    pub medians: Option<(f64, f64)>,
    /// Hodges-Lehmann estimate of how far the runs after the change lie above the runs before.
    /// `None` if unknown.
    pub shift: Option<f64>,
    /// Confidence interval of the true shift; `None` if there are too few runs.
    pub interval: Option<ShiftInterval>,
    /// p of the exact Mann-Whitney test, two-sided; `None` without a test.
    pub p: Option<f64>,
    /// The same p after Holm's correction for the number of tested figures; `None` without a test.
    pub corrected_p: Option<f64>,
    /// Verdict on this figure.
    pub verdict: GroupVerdict,
}

impl GroupRow {
    /// Returns whether the figure is not 0 in at least one run.
    pub fn is_any(&self) -> bool {
        let mut values = self.before.iter().chain(&self.after).flatten();
        values.any(|value| *value != 0.0)
    }
}

/// Comparison of two groups of runs, for all figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Comparison of each figure.
    pub rows: Vec<GroupRow>,
    /// Number of tested figures.
    pub tested: usize,
    /// Least p that one figure can have with this number of runs.
    pub least_p: f64,
    /// Least number of runs in each group that can make any of the tested figures different. `None`
    /// without a test, or for more than [`MOST_RUNS`] runs.
    pub needed: Option<usize>,
}

impl Groups {
    /// Returns whether no difference could be found with this number of runs, whatever their
    /// figures are.
    pub fn are_too_few(&self) -> bool {
        self.tested > 0 && self.least_p * self.tested as f64 > LEVEL
    }
}

/// Compares all figures of two groups of runs. All runs must be of one kind. Each group may have at
/// most [`MOST_RUNS`] runs.
pub fn compare_groups(before: &[&RunFigures], after: &[&RunFigures]) -> Groups {
    let figures = figures_of(&[before, after].concat());
    let rows = figures.into_iter().map(|figure| {
        let of = |runs: &[&RunFigures]| runs.iter().map(|run| run.figure(&figure)).collect();
        (of(before), of(after), figure.clone())
    });
    let rows = rows.map(|(before, after, figure)| row(figure, before, after));
    judged(rows.collect(), before.len(), after.len())
}

fn row(figure: ComparedFigure, before: Vec<Option<f64>>, after: Vec<Option<f64>>) -> GroupRow {
    let known = |values: &[Option<f64>]| values.iter().copied().collect::<Option<Vec<f64>>>();
    let both = known(&before).zip(known(&after));
    let differences = both.as_ref().map(|(a, b)| Differences::new(a, b));
    let has_several = |(a, b): &&(Vec<f64>, Vec<f64>)| a.iter().chain(b).any(|it| *it != a[0]);
    let tested = both.as_ref().filter(has_several);
    GroupRow {
        medians: both.as_ref().and_then(|(a, b)| middle(a).zip(middle(b))),
        shift: differences.as_ref().and_then(Differences::shift),
        interval: differences.as_ref().and_then(|it| it.interval(LEVEL)),
        p: tested.map(|(a, b)| mann_whitney(a, b)),
        corrected_p: None,
        verdict: GroupVerdict::Untested,
        figure,
        before,
        after,
    }
}

fn middle(values: &[f64]) -> Option<f64> {
    let mut ascending = values.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    median(&ascending)
}

fn judged(mut rows: Vec<GroupRow>, before: usize, after: usize) -> Groups {
    let mut corrected: Vec<f64> = rows.iter().filter_map(|row| row.p).collect();
    let tested = corrected.len();
    holm(&mut corrected);
    let of = |runs| least_p(runs, runs) * tested as f64;
    let mut groups = Groups {
        tested,
        least_p: least_p(before, after),
        needed: (1..=MOST_RUNS).find(|runs| tested > 0 && of(*runs) <= LEVEL),
        rows: Vec::new(),
    };
    let are_too_few = groups.are_too_few();
    let with_p = rows.iter_mut().filter(|row| row.p.is_some());
    for (row, p) in with_p.zip(corrected) {
        row.corrected_p = Some(p);
        row.verdict = match p <= LEVEL {
            true => GroupVerdict::Different,
            false if are_too_few => GroupVerdict::TooFewRuns,
            false => GroupVerdict::NotShown,
        };
    }
    groups.rows = rows;
    groups
}

#[cfg(test)]
mod tests;
