//! Results of `compare`: text, `vmnoise.compare/1`, and a page.

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

use crate::output::format::CompareFormat;

/// Recording that was read.
pub struct ComparedRun {
    /// Path of the recording.
    pub file: String,
    /// Facts of its run.
    pub facts: RunFacts,
    /// Its figures.
    pub measured: RunFigures,
}

/// Comparison of the first run with another one.
pub struct Comparison {
    /// Index of the other run.
    pub second: usize,
    /// All figures.
    pub rows: Vec<FigureRow>,
}

/// Comparison of two groups: the first runs, and the others.
pub struct TwoGroups {
    /// Number of runs in the group "before", which come first.
    pub before: usize,
    /// Number of runs in the group "after".
    pub after: usize,
    /// Whether every run before the change began earlier than any run after it. If so, other
    /// changes in that time cannot be separated from this one.
    pub is_one_after_the_other: bool,
    /// All figures.
    pub groups: Groups,
}

impl TwoGroups {
    /// Returns the group of the run at this index.
    fn name_of(&self, place: usize) -> &'static str {
        match place < self.before {
            true => "before",
            false => "after",
        }
    }
}

/// Condition, and the answer for one run.
pub struct CheckedCondition {
    /// Condition as the user typed it.
    pub condition: String,
    /// Index of the run.
    pub run: usize,
    /// Unit of the run's figure.
    pub unit: Unit,
    /// Answer for this run.
    pub answer: ConditionAnswer,
}

/// Result of `compare`.
pub struct ComparisonResult {
    /// Kind of the recordings.
    pub kind: RecordingKind,
    /// Threshold in nanoseconds; shorter gaps are left out of every run.
    pub threshold_ns: u64,
    /// Length of a window, nanoseconds.
    pub window_ns: u64,
    /// Recordings.
    pub runs: Vec<ComparedRun>,
    /// Comparisons, one for each recording but the first; empty for groups.
    pub comparisons: Vec<Comparison>,
    /// Groups, if two were named.
    pub groups: Option<TwoGroups>,
    /// Conditions, one entry for each recording tested.
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
