//! Two runs side by side.

use serde::Serialize;

use super::figure::Figure;
use super::measured::Measured;
use super::ranks::{holm, ranks};

/// How unlikely chance has to be, over all figures of a comparison together.
const ALPHA: f64 = 0.01;

/// What a comparison of one figure shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The runs differ.
    Different,
    /// It could be chance.
    NotShown,
    /// One of the runs does not know the figure, or has too few windows.
    Untested,
}

/// One figure of two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Which.
    pub figure: Figure,
    /// Of the first run as a whole, in the figure's unit; `None` where unknown.
    pub first: Option<f64>,
    /// Of the second.
    pub second: Option<f64>,
    /// By how much the second run's windows lie above the first's: the Hodges-Lehmann estimate,
    /// in the figure's unit.
    pub shift: Option<f64>,
    /// Cliff's delta, -1 to 1: 1 is where each window of the second run lies above each of the
    /// first.
    pub delta: Option<f64>,
    /// The Mann-Whitney test's p, two-sided, corrected by Holm for all figures that are tested.
    pub p: Option<f64>,
    /// What that shows.
    pub verdict: Verdict,
}

impl Row {
    /// Whether either run has any of it.
    pub fn is_any(&self) -> bool {
        let some = |value: Option<f64>| value.is_some_and(|value| value != 0.0);
        some(self.first) || some(self.second)
    }
}

/// Every figure of two runs of one kind that have windows of one length and, of gaps, one threshold.
pub fn compare(first: &Measured, second: &Measured) -> Vec<Row> {
    let mut rows: Vec<Row> = figures_of(&[first, second])
        .into_iter()
        .map(|figure| row(figure, first, second))
        .collect();
    let (tested, mut p): (Vec<usize>, Vec<f64>) = rows
        .iter()
        .enumerate()
        .filter_map(|(at, row)| Some((at, row.p?)))
        .unzip();
    holm(&mut p);
    for (at, p) in tested.into_iter().zip(p) {
        rows[at].p = Some(p);
        rows[at].verdict = match p < ALPHA {
            true => Verdict::Different,
            false => Verdict::NotShown,
        };
    }
    rows
}

/// Every figure that one of these runs of one kind has, in the order in which results list them.
pub fn figures_of(runs: &[&Measured]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for figure in runs.iter().flat_map(|run| run.figures()) {
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    figures
}

fn row(figure: Figure, first: &Measured, second: &Measured) -> Row {
    let both = first.by_window(&figure).zip(second.by_window(&figure));
    // Nothing to compare where neither ever had any of it.
    let both = both.filter(|(a, b)| a.iter().chain(b).any(|it| *it != 0.0));
    let ranks = both.and_then(|(a, b)| ranks(&a, &b));
    Row {
        first: first.figure(&figure),
        second: second.figure(&figure),
        shift: ranks.map(|ranks| ranks.shift),
        delta: ranks.map(|ranks| ranks.delta),
        p: ranks.map(|ranks| ranks.p),
        verdict: Verdict::Untested,
        figure,
    }
}
