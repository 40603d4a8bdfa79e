//! JSON document `vmnoise.compare/1` (docs/json.md).

use std::borrow::Cow;

use serde::Serialize;
use vmnoise_events::coverage::{BlindSpot, Coverage};
use vmnoise_judge::compare::{ComparisonVerdict, RecordingKind};

use super::groups_document::GroupsOf;
use super::{ComparedRun, Comparison, ComparisonResult};
use crate::json::{DocumentSubject, unit};

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    of: &'static str,
    threshold_ns: Option<u64>,
    window_ns: u64,
    runs: Vec<RunOf<'a>>,
    comparisons: Vec<ComparisonOf<'a>>,
    groups: Option<GroupsOf<'a>>,
    conditions: Vec<ConditionOf<'a>>,
}

#[derive(Debug, Serialize)]
struct RunOf<'a> {
    #[serde(flatten)]
    recorded: DocumentSubject<'a>,
    runtime_ns: u64,
    gaps_ns: Option<u64>,
    windows: usize,
    blind_spots: &'a Coverage,
    lost_events: u64,
    complete: bool,
}

#[derive(Debug, Serialize)]
struct ComparisonOf<'a> {
    first: usize,
    second: usize,
    figures: Vec<FigureOf<'a>>,
}

#[derive(Debug, Serialize)]
struct FigureOf<'a> {
    figure: Cow<'a, str>,
    unit: &'static str,
    first: Option<f64>,
    second: Option<f64>,
    shift: Option<f64>,
    delta: Option<f64>,
    p: Option<f64>,
    verdict: ComparisonVerdict,
}

#[derive(Debug, Serialize)]
struct ConditionOf<'a> {
    condition: &'a str,
    run: usize,
    value: Option<f64>,
    unit: &'static str,
    holds: Option<bool>,
    blind_spots: &'a [BlindSpot],
}

impl<'a> Document<'a> {
    pub(super) fn new(compared: &'a ComparisonResult) -> Document<'a> {
        let ComparisonResult {
            kind,
            threshold_ns,
            window_ns,
            runs,
            comparisons,
            groups,
            checks,
        } = compared;
        let figures = |comparison: &'a Comparison| {
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
            of: kind.name(),
            threshold_ns: (*kind == RecordingKind::Gaps).then_some(*threshold_ns),
            window_ns: *window_ns,
            runs: runs.iter().map(RunOf::new).collect(),
            comparisons: comparisons
                .iter()
                .map(|comparison| ComparisonOf {
                    first: 0,
                    second: comparison.second,
                    figures: figures(comparison),
                })
                .collect(),
            groups: groups.as_ref().map(GroupsOf::new),
            conditions: checks
                .iter()
                .map(|check| ConditionOf {
                    condition: &check.condition,
                    run: check.run,
                    value: check.answer.value,
                    unit: unit(check.unit),
                    holds: check.answer.holds,
                    blind_spots: &check.answer.blind_spots,
                })
                .collect(),
        }
    }
}

impl<'a> RunOf<'a> {
    fn new(run: &'a ComparedRun) -> RunOf<'a> {
        let ComparedRun {
            file,
            facts,
            measured,
        } = run;
        RunOf {
            recorded: DocumentSubject::new(file, facts),
            runtime_ns: measured.runtime_ns,
            gaps_ns: measured.gaps_ns,
            windows: measured.windows,
            blind_spots: &measured.coverage,
            lost_events: measured.lost_events,
            complete: measured.complete,
        }
    }
}
