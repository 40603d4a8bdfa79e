//! Compares all figures of two runs.

use serde::Serialize;

use super::figure::ComparedFigure;
use super::measured::RunFigures;
use super::ranks::{Ranks, holm, p_of_all, ranks};

/// Level of significance of a comparison, for all its figures together. The true level is higher,
/// because the autocorrelation of 20 windows is itself an estimate. If this estimate is too small, p
/// is too small. The true level is up to about four times this level, which is 2 %. The test
/// `two_runs_of_one_process_hardly_ever_differ_however_long_it_is_noisy` measures it.
pub(super) const ALPHA: f64 = 0.005;

/// Verdict on one figure of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// The runs differ.
    Different,
    /// The difference may be chance.
    NotShown,
    /// The figure is unknown in a run, or a run has too few windows.
    Untested,
}

/// Comparison of one figure of two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureRow {
    /// The compared figure.
    pub figure: ComparedFigure,
    /// Value of the whole first run, in the figure's unit; `None` if unknown.
    pub first: Option<f64>,
    /// Value of the whole second run, in the figure's unit; `None` if unknown.
    pub second: Option<f64>,
    /// Hodges-Lehmann estimate of how far the second run's windows lie above the first run's
    /// windows, in the figure's unit. `None` if the figure was not tested.
    pub shift: Option<f64>,
    /// Cliff's delta, -1 to 1. It is 1 if every window of the second run lies above every window of
    /// the first run. `None` if the figure was not tested.
    pub delta: Option<f64>,
    /// Two-sided p of the Mann-Whitney test, with Holm's correction for all tested figures. `None`
    /// if the figure was not tested.
    pub p: Option<f64>,
    /// Verdict on this figure.
    pub verdict: ComparisonVerdict,
}

impl FigureRow {
    /// Returns whether the figure is not 0 in at least one run.
    pub fn is_any(&self) -> bool {
        let some = |value: Option<f64>| value.is_some_and(|value| value != 0.0);
        some(self.first) || some(self.second)
    }
}

/// Compares all figures of two runs of one kind. Both runs must have the same length of windows and
/// the same threshold for gaps.
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

/// Returns every figure that at least one of these runs has, in the order of results. All runs must
/// be of one kind.
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
    // Without a value other than 0 in both runs, there is nothing to compare.
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
