//! Two groups of runs, before a change and after it: whether they differ, by a test over runs.
//!
//! One run is one number of each figure. How alike the seconds of a run are says nothing of how
//! alike runs are, so nothing inside of a run is ranked here.

mod rank_sum;
mod shift;

use rank_sum::{least_p, mann_whitney};
use serde::Serialize;
use shift::{Differences, median};

pub use shift::Interval;

use super::figure::Figure;
use super::measured::Measured;
use super::ranks::holm;
use super::verdict::figures_of;

/// How often chance may pass for a difference, in any figure of a comparison; and how often an
/// interval may miss the true shift.
pub const LEVEL: f64 = 0.05;

/// The exact distribution of more runs in a group takes seconds.
pub const MOST_RUNS: usize = 50;

/// What the runs say of one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupVerdict {
    /// The groups differ.
    Different,
    /// It could be chance.
    NotShown,
    /// Groups of so few runs cannot differ so much that it could not be chance.
    TooFewRuns,
    /// A run does not know the figure, or all have the same.
    Untested,
}

/// One figure of two groups, in the figure's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRow {
    /// Which.
    pub figure: Figure,
    /// Of each run before the change; `None` where unknown.
    pub before: Vec<Option<f64>>,
    /// Of each run after it.
    pub after: Vec<Option<f64>>,
    /// Medians of both; `None` where a run does not know it.
    pub medians: Option<(f64, f64)>,
    /// By how much the runs after lie above those before: the Hodges-Lehmann estimate.
    pub shift: Option<f64>,
    /// Where the true shift lies; `None` where so few runs do not tell.
    pub interval: Option<Interval>,
    /// The exact Mann-Whitney test's p, two-sided; `None` where nothing was tested.
    pub p: Option<f64>,
    /// That, corrected by Holm for all figures that are tested.
    pub corrected_p: Option<f64>,
    /// What it shows.
    pub verdict: GroupVerdict,
}

impl GroupRow {
    /// Whether any run has any of it.
    pub fn is_any(&self) -> bool {
        let mut values = self.before.iter().chain(&self.after).flatten();
        values.any(|value| *value != 0.0)
    }
}

/// Two groups of runs, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Every figure.
    pub rows: Vec<GroupRow>,
    /// How many of them are tested.
    pub tested: usize,
    /// The least p that so many runs can have in one figure.
    pub least_p: f64,
    /// How many runs each group has to have at least so that any of so many figures can be found
    /// different; `None` where nothing is tested.
    pub needed: Option<usize>,
}

impl Groups {
    /// Whether nothing could have been found, whatever the runs were.
    pub fn are_too_few(&self) -> bool {
        self.tested > 0 && self.least_p * self.tested as f64 > LEVEL
    }
}

/// Every figure of two groups of runs of one kind, of which none has more than [`MOST_RUNS`].
pub fn compare_groups(before: &[&Measured], after: &[&Measured]) -> Groups {
    let figures = figures_of(&[before, after].concat());
    let rows = figures.into_iter().map(|figure| {
        let of = |runs: &[&Measured]| runs.iter().map(|run| run.figure(&figure)).collect();
        (of(before), of(after), figure.clone())
    });
    let rows = rows.map(|(before, after, figure)| row(figure, before, after));
    judged(rows.collect(), before.len(), after.len())
}

fn row(figure: Figure, before: Vec<Option<f64>>, after: Vec<Option<f64>>) -> GroupRow {
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
