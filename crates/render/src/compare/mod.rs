//! Results of `compare`: as text, as JSON document `vmnoise.compare/1`, and as an HTML page.

mod document;
mod figures;
mod groups_document;
mod groups_text;
mod page;
mod text;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_events::coverage::Question;
use vmnoise_judge::compare::{ConditionAnswer, FigureRow, Groups, RecordingKind, RunFigures, Unit};

use crate::format::CompareFormat;

/// Recording, with the figures of its run.
#[derive(Debug)]
pub struct ComparedRun {
    /// Path of the recording.
    pub file: String,
    /// Facts of the run.
    pub facts: RunFacts,
    /// Figures of the run.
    pub measured: RunFigures,
}

/// Comparison of another run with the first run.
#[derive(Debug)]
pub struct Comparison {
    /// Index of the other run.
    pub second: usize,
    /// Rows, one for each figure.
    pub rows: Vec<FigureRow>,
}

/// Comparison of two groups of runs: "before" and "after" a change.
#[derive(Debug)]
pub struct TwoGroups {
    /// Number of runs in the group "before". These runs come first in the list of all runs.
    pub before: usize,
    /// Number of runs in the group "after".
    pub after: usize,
    /// Whether every run before the change began earlier than every run after the change. If so,
    /// the effect of this change cannot be separated from the effects of other changes in that
    /// time.
    pub is_one_after_the_other: bool,
    /// Figures of both groups, with the test of each figure.
    pub groups: Groups,
}

impl TwoGroups {
    /// Returns the name of the group that contains the run at this index.
    fn name_of(&self, place: usize) -> &'static str {
        match place < self.before {
            true => "before",
            false => "after",
        }
    }
}

/// Condition, with the answer for one run.
#[derive(Debug)]
pub struct CheckedCondition {
    /// Condition as the user typed it.
    pub condition: String,
    /// Index of the run.
    pub run: usize,
    /// Unit of the figure in the condition.
    pub unit: Unit,
    /// Answer for this run.
    pub answer: ConditionAnswer,
}

/// Result of `compare`.
#[derive(Debug)]
pub struct ComparisonResult {
    /// Kind of the recordings.
    pub kind: RecordingKind,
    /// Threshold in nanoseconds. Shorter gaps are left out of every run.
    pub threshold_ns: u64,
    /// Length of a window, in nanoseconds.
    pub window_ns: u64,
    /// Recordings. If two groups are compared, the group "before" comes first.
    pub runs: Vec<ComparedRun>,
    /// Comparisons with the first recording, one for each other recording; empty if two groups are
    /// compared.
    pub comparisons: Vec<Comparison>,
    /// Comparison of two groups, if the user named groups.
    pub groups: Option<TwoGroups>,
    /// Conditions: one entry for each condition and each recording on which it was tested.
    pub checks: Vec<CheckedCondition>,
}

impl ComparisonResult {
    /// Returns a line for each blind spot. Blind spots that leave a condition unknown come first.
    /// `name` returns the name of the run at an index.
    fn not_seen(&self, name: impl Fn(usize) -> String) -> Vec<String> {
        let of_checks = self.checks.iter().flat_map(|check| {
            let of = format!("{}, {}", name(check.run), check.condition);
            let spots = check.answer.blind_spots.iter();
            spots.map(move |spot| format!("{of}: {spot}"))
        });
        let of_runs = self.runs.iter().enumerate().flat_map(|(at, run)| {
            let of = name(at);
            let spots = run.measured.coverage.blind_spots(Question::Anything);
            spots.into_iter().map(move |spot| format!("{of}: {spot}"))
        });
        of_checks.chain(of_runs).collect()
    }
}

/// Prints the result.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(format: CompareFormat, compared: &ComparisonResult) -> Result<()> {
    let out = match format {
        CompareFormat::Text => text::render(compared).into_bytes(),
        CompareFormat::Json => {
            let mut out = Vec::new();
            super::json::write(&mut out, &document::Document::new(compared))?;
            out
        }
        CompareFormat::Html => page::render(compared)?.into_bytes(),
    };
    super::write(&out)
}
