//! Data of a page that compares recordings, and its figures in words.

use vmnoise_events::RunFacts;
use vmnoise_judge::compare::{FigureRow, Groups, RecordingKind, RunFigures, Unit};

use crate::figures::{count, duration, percent};

/// A recording and its figures.
#[derive(Debug, Clone, Copy)]
pub struct ComparedRecording<'a> {
    /// Path of the recording.
    pub file: &'a str,
    /// Facts about the run before its first event.
    pub facts: &'a RunFacts,
    /// Figures of the recording.
    pub measured: &'a RunFigures,
}

/// Comparison of the first recording with another.
#[derive(Debug, Clone, Copy)]
pub struct RecordingComparison<'a> {
    /// Index of the other recording.
    pub second: usize,
    /// All figures.
    pub rows: &'a [FigureRow],
}

/// Comparison of two groups of recordings.
#[derive(Debug, Clone, Copy)]
pub struct GroupsBeside<'a> {
    /// Number of recordings before the change, which come first. The others are those after it.
    pub before: usize,
    /// All figures.
    pub groups: &'a Groups,
    /// True if every run before the change began before any run after it.
    pub is_one_after_the_other: bool,
}

/// A condition, and its result for a recording.
#[derive(Debug, Clone, Copy)]
pub struct ConditionResult<'a> {
    /// Text of the condition, as it was typed.
    pub condition: &'a str,
    /// Index of the recording.
    pub run: usize,
    /// Figure of the recording; `None` if it is unknown.
    pub value: Option<f64>,
    /// Unit of the figure.
    pub unit: Unit,
    /// True if the condition holds; `None` if it is unknown.
    pub holds: Option<bool>,
}

/// Contents of a page.
#[derive(Debug)]
pub struct ComparePage<'a> {
    /// Kind of the recordings' moments.
    pub kind: RecordingKind,
    /// Shortest gap that counts, in nanoseconds.
    pub threshold_ns: u64,
    /// Length of a window in nanoseconds.
    pub window_ns: u64,
    /// The recordings; the others are compared with the first.
    pub runs: Vec<ComparedRecording<'a>>,
    /// The two groups, if the recordings are grouped.
    pub groups: Option<GroupsBeside<'a>>,
    /// One comparison for each other recording; empty for groups.
    pub pairs: Vec<RecordingComparison<'a>>,
    /// Conditions and their results.
    pub judged: Vec<ConditionResult<'a>>,
    /// Version of the program.
    pub tool_version: &'a str,
}

impl ComparePage<'_> {
    /// Returns the path of a run by its index.
    pub(crate) fn file(&self, place: usize) -> &str {
        self.runs.get(place).map_or("-", |run| run.file)
    }
}

/// Returns the word for the moments of recordings.
pub(crate) const fn words(kind: RecordingKind) -> &'static str {
    match kind {
        RecordingKind::Gaps => "gaps",
        RecordingKind::Wakeups => "wake-ups",
        RecordingKind::Exits => "exits",
    }
}

/// Formats a figure in its unit; `-` if it is unknown.
pub(crate) fn value(value: Option<f64>, unit: Unit) -> String {
    match (value, unit) {
        (None, _) => "-".into(),
        (Some(value), Unit::Percent) => percent(value),
        (Some(value), Unit::PerSecond) if value < 100.0 => format!("{value:.1}\u{a0}/s"),
        (Some(value), Unit::PerSecond) => format!("{}\u{a0}/s", count(value.round() as u64)),
        (Some(value), Unit::Nanoseconds) => duration(value.round() as u64),
    }
}

/// Formats a difference in its unit; a trace has no sign.
pub(crate) fn signed(shift: f64, unit: Unit) -> String {
    let text = value(Some(shift.abs()), unit);
    match shift {
        0.0 => text,
        _ if text.starts_with('<') => text,
        ..0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}
