//! Comparison of two runs.

use serde::Serialize;

use super::figure::ComparedFigure;
use super::measured::RunFigures;
use super::ranks::{Ranks, holm, p_of_all, ranks};

/// Level of significance, for all figures of a comparison together.
const ALPHA: f64 = 0.01;

/// Verdict on one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// The runs differ.
    Different,
    /// The difference may be chance.
    NotShown,
    /// A run does not know the figure, or has too few windows.
    Untested,
}

/// Comparison of one figure of two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureRow {
    /// Figure.
    pub figure: ComparedFigure,
    /// Value of the first run as a whole, in the figure's unit; `None` if unknown.
    pub first: Option<f64>,
    /// Value of the second run, in the same way.
    pub second: Option<f64>,
    /// How far the second run's windows lie above the first's: the Hodges-Lehmann estimate, in the
    /// figure's unit.
    pub shift: Option<f64>,
    /// Cliff's delta, -1 to 1. It is 1 if every window of the second run lies above every window of
    /// the first.
    pub delta: Option<f64>,
    /// p of the Mann-Whitney test, two-sided, with Holm's correction for all tested figures.
    pub p: Option<f64>,
    /// Verdict.
    pub verdict: ComparisonVerdict,
}

impl FigureRow {
    /// Whether the figure is not 0 in one of the runs.
    pub fn is_any(&self) -> bool {
        let some = |value: Option<f64>| value.is_some_and(|value| value != 0.0);
        some(self.first) || some(self.second)
    }
}

/// Compares all figures of two runs of one kind. Their windows must have one length, and their gaps
/// one threshold.
pub fn compare(first: &RunFigures, second: &RunFigures) -> Vec<FigureRow> {
    let figures = figures_of(&[first, second]).into_iter();
    let (mut rows, compared): (Vec<FigureRow>, Vec<Option<Ranks>>) =
        figures.map(|figure| row(figure, first, second)).unzip();
    let (tested, ranks): (Vec<usize>, Vec<Ranks>) = compared
        .into_iter()
        .enumerate()
        .filter_map(|(at, ranks)| Some((at, ranks?)))
        .unzip();
    let mut p = p_of_all(&ranks);
    holm(&mut p);
    for (at, p) in tested.into_iter().zip(p) {
        rows[at].p = Some(p);
        rows[at].verdict = match p < ALPHA {
            true => ComparisonVerdict::Different,
            false => ComparisonVerdict::NotShown,
        };
    }
    rows
}

/// Returns every figure that one of these runs has, in the order of results. The runs must be of
/// one kind.
pub fn figures_of(runs: &[&RunFigures]) -> Vec<ComparedFigure> {
    let mut figures: Vec<ComparedFigure> = Vec::new();
    for figure in runs.iter().flat_map(|run| run.figures()) {
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    figures
}

fn row(
    figure: ComparedFigure,
    first: &RunFigures,
    second: &RunFigures,
) -> (FigureRow, Option<Ranks>) {
    let both = first.by_window(&figure).zip(second.by_window(&figure));
    // There is nothing to compare if the figure is 0 in all windows of both.
    let both = both.filter(|(a, b)| a.iter().chain(b).any(|it| *it != 0.0));
    let ranks = both.and_then(|(a, b)| ranks(&a, &b));
    let row = FigureRow {
        first: first.figure(&figure),
        second: second.figure(&figure),
        shift: ranks.map(|ranks| ranks.shift),
        delta: ranks.map(|ranks| ranks.delta),
        p: None,
        verdict: ComparisonVerdict::Untested,
        figure,
    };
    (row, ranks)
}
