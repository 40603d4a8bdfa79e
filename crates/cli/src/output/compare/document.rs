//! `vmnoise.compare/1` (docs/json.md).

use serde::Serialize;
use vmnoise_explain::compare::Verdict;

use super::{Checked, Comparison, Run};
use crate::output::json::{Recorded, unit};

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    threshold_ns: u64,
    window_ns: u64,
    runs: Vec<RunOf<'a>>,
    comparisons: Vec<ComparisonOf>,
    conditions: Vec<ConditionOf<'a>>,
}

#[derive(Debug, Serialize)]
struct RunOf<'a> {
    #[serde(flatten)]
    recorded: Recorded<'a>,
    runtime_ns: u64,
    gaps_ns: u64,
    windows: usize,
    lost_events: u64,
    complete: bool,
}

#[derive(Debug, Serialize)]
struct ComparisonOf {
    first: usize,
    second: usize,
    figures: Vec<FigureOf>,
}

#[derive(Debug, Serialize)]
struct FigureOf {
    figure: &'static str,
    unit: &'static str,
    first: Option<f64>,
    second: Option<f64>,
    shift: Option<f64>,
    delta: Option<f64>,
    p: Option<f64>,
    verdict: Verdict,
}

#[derive(Debug, Serialize)]
struct ConditionOf<'a> {
    condition: &'a str,
    run: usize,
    value: Option<f64>,
    unit: &'static str,
    holds: Option<bool>,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        threshold_ns: u64,
        window_ns: u64,
        runs: &'a [Run],
        comparisons: &[Comparison],
        checks: &'a [Checked],
    ) -> Document<'a> {
        let figures = |comparison: &Comparison| {
            let rows = comparison.rows.iter().map(|row| FigureOf {
                figure: row.figure.name(),
                unit: unit(row.figure.unit()),
                first: row.first,
                second: row.second,
                shift: row.shift,
                delta: row.delta,
                p: row.p,
                verdict: row.verdict,
            });
            rows.collect()
        };
        Document {
            schema: "vmnoise.compare/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            threshold_ns,
            window_ns,
            runs: runs.iter().map(RunOf::new).collect(),
            comparisons: comparisons
                .iter()
                .map(|comparison| ComparisonOf {
                    first: 0,
                    second: comparison.second,
                    figures: figures(comparison),
                })
                .collect(),
            conditions: checks
                .iter()
                .map(|check| ConditionOf {
                    condition: &check.condition,
                    run: check.run,
                    value: check.value,
                    unit: unit(check.unit),
                    holds: check.holds,
                })
                .collect(),
        }
    }
}

impl<'a> RunOf<'a> {
    fn new(run: &'a Run) -> RunOf<'a> {
        let Run {
            file,
            facts,
            sample,
        } = run;
        RunOf {
            recorded: Recorded::new(file, facts),
            runtime_ns: sample.whole.runtime_ns,
            gaps_ns: sample.whole.noise_ns,
            windows: sample.windows.len(),
            lost_events: sample.summary.lost_events,
            complete: sample.summary.complete,
        }
    }
}
