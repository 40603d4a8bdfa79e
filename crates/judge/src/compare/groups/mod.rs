//! Two groups of runs, before and after a change: whether they differ, by a test over runs.
//!
//! Each run is one number for each figure. The windows of one run do not show how alike runs are,
//! so they are not used here.

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

/// Highest probability that chance is taken for a difference, in any figure of a comparison. Also
/// the highest probability that an interval does not contain the true shift.
pub const LEVEL: f64 = 0.05;

/// Largest number of runs in a group. For more runs the exact distribution takes seconds.
pub const MOST_RUNS: usize = 50;

/// Verdict on one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupVerdict {
    /// The groups differ.
    Different,
    /// The difference may be chance.
    NotShown,
    /// With so few runs, no difference could be more than chance.
    TooFewRuns,
    /// The figure is unknown in a run, or equal in all of them.
    Untested,
}

/// Comparison of one figure of two groups, in the figure's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRow {
    /// Figure.
    pub figure: ComparedFigure,
    /// Value of each run before the change; `None` if unknown.
    pub before: Vec<Option<f64>>,
    /// Value of each run after the change; `None` if unknown.
    pub after: Vec<Option<f64>>,
    /// Medians of both groups; `None` if the figure is unknown in a run.
    pub medians: Option<(f64, f64)>,
    /// How far the runs after lie above those before: the Hodges-Lehmann estimate.
    pub shift: Option<f64>,
    /// Interval of the true shift; `None` if there are too few runs.
    pub interval: Option<ShiftInterval>,
    /// p of the exact Mann-Whitney test, two-sided; `None` without a test.
    pub p: Option<f64>,
    /// The same p with Holm's correction for all tested figures.
    pub corrected_p: Option<f64>,
    /// Verdict.
    pub verdict: GroupVerdict,
}

impl GroupRow {
    /// Whether the figure is not 0 in some run.
    pub fn is_any(&self) -> bool {
        let mut values = self.before.iter().chain(&self.after).flatten();
        values.any(|value| *value != 0.0)
    }
}

/// Comparison of two groups of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// All figures.
    pub rows: Vec<GroupRow>,
    /// Number of tested figures.
    pub tested: usize,
    /// Least p that this number of runs can have in one figure.
    pub least_p: f64,
    /// Least number of runs in each group with which any of the tested figures can be found
    /// different; `None` without a test, or above [`MOST_RUNS`].
    pub needed: Option<usize>,
}

impl Groups {
    /// Whether no difference could be found, whatever the figures of the runs are.
    pub fn are_too_few(&self) -> bool {
        self.tested > 0 && self.least_p * self.tested as f64 > LEVEL
    }
}

/// Compares all figures of two groups of runs of one kind. No group may have more than
/// [`MOST_RUNS`].
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
