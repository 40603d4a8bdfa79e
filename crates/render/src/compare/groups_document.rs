//! Object `groups` in `vmnoise.compare/1`: two groups of runs.

use std::borrow::Cow;

use serde::Serialize;
use vmnoise_judge::compare::{GroupRow, GroupVerdict, LEVEL, ShiftInterval};

use super::TwoGroups;
use crate::json::unit;

#[derive(Debug, Serialize)]
pub(super) struct GroupsOf<'a> {
    before: Vec<usize>,
    after: Vec<usize>,
    one_after_the_other: bool,
    test: &'static str,
    correction: &'static str,
    level: f64,
    tested: usize,
    least_p: f64,
    too_few_runs: bool,
    needed_runs: Option<usize>,
    figures: Vec<FigureOf<'a>>,
}

#[derive(Debug, Serialize)]
struct FigureOf<'a> {
    figure: Cow<'a, str>,
    unit: &'static str,
    before: &'a [Option<f64>],
    after: &'a [Option<f64>],
    median_before: Option<f64>,
    median_after: Option<f64>,
    shift: Option<f64>,
    interval: Option<ShiftInterval>,
    p: Option<f64>,
    corrected_p: Option<f64>,
    verdict: GroupVerdict,
}

impl<'a> GroupsOf<'a> {
    pub(super) fn new(of: &'a TwoGroups) -> GroupsOf<'a> {
        let groups = &of.groups;
        GroupsOf {
            before: (0..of.before).collect(),
            after: (of.before..of.before + of.after).collect(),
            one_after_the_other: of.is_one_after_the_other,
            test: "mann_whitney_exact",
            correction: "holm",
            level: LEVEL,
            tested: groups.tested,
            least_p: groups.least_p,
            too_few_runs: groups.are_too_few(),
            needed_runs: groups.needed,
            figures: groups.rows.iter().map(FigureOf::new).collect(),
        }
    }
}

impl<'a> FigureOf<'a> {
    fn new(row: &'a GroupRow) -> FigureOf<'a> {
        FigureOf {
            figure: row.figure.name(),
            unit: unit(row.figure.unit()),
            before: &row.before,
            after: &row.after,
            median_before: row.medians.map(|(before, _)| before),
            median_after: row.medians.map(|(_, after)| after),
            shift: row.shift,
            interval: row.interval,
            p: row.p,
            corrected_p: row.corrected_p,
            verdict: row.verdict,
        }
    }
}
