//! Data of a page that compares recordings, and functions that format their figures.

use vmnoise_events::RunFacts;
use vmnoise_judge::compare::{FigureRow, Groups, RecordingKind, RunFigures, Unit};

use crate::figures::{count, duration, percent};

/// A recording and its figures.
#[derive(Debug, Clone, Copy)]
pub struct ComparedRecording<'a> {
    /// Path of the recording.
    pub file: &'a str,
    /// Facts that were recorded before the run's first event.
    pub facts: &'a RunFacts,
    /// Figures of the recording.
    pub measured: &'a RunFigures,
}

/// Comparison of the first recording with another recording.
#[derive(Debug, Clone, Copy)]
pub struct RecordingComparison<'a> {
    /// Index of the other recording in [`ComparePage::runs`].
    pub second: usize,
    /// Comparison of each figure.
    pub rows: &'a [FigureRow],
}

/// Comparison of two groups of recordings.
#[derive(Debug, Clone, Copy)]
pub struct GroupsBeside<'a> {
    /// Number of recordings before the change. They come first; all later recordings are after the
    /// change.
    pub before: usize,
    /// Comparison of each figure.
    pub groups: &'a Groups,
    /// Whether every run before the change began before every run after it.
    pub is_one_after_the_other: bool,
}

/// Result of a condition for one recording.
#[derive(Debug, Clone, Copy)]
pub struct ConditionResult<'a> {
    /// Text of the condition, as the user typed it.
    pub condition: &'a str,
    /// Index of the recording.
    pub run: usize,
    /// Figure of the recording, in its unit; `None` if unknown.
    pub value: Option<f64>,
    /// Unit of the figure.
    pub unit: Unit,
    /// Whether the condition holds; `None` if unknown.
    pub holds: Option<bool>,
}

/// Contents of a page that compares recordings.
#[derive(Debug)]
pub struct ComparePage<'a> {
    /// Kind of the recordings: gaps, wake-ups or exits.
    pub kind: RecordingKind,
    /// Threshold in nanoseconds: shorter gaps are ignored.
    pub threshold_ns: u64,
    /// Length of a window, in nanoseconds.
    pub window_ns: u64,
    /// All recordings. Each is compared with the first one.
    pub runs: Vec<ComparedRecording<'a>>,
    /// Comparison of two groups; `None` if the recordings are not grouped.
    pub groups: Option<GroupsBeside<'a>>,
    /// Comparisons of the first recording with each other one; empty if the recordings are grouped.
    pub pairs: Vec<RecordingComparison<'a>>,
    /// Result of each condition for each recording.
    pub judged: Vec<ConditionResult<'a>>,
    /// Limits of the recordings, such as lost records and the threshold. Each is one sentence.
    pub limits: Vec<String>,
    /// Version of the vmnoise that writes the page.
    pub tool_version: &'a str,
}

impl ComparePage<'_> {
    /// Returns the path of a recording by its index.
    pub(crate) fn file(&self, place: usize) -> &str {
        self.runs.get(place).map_or("-", |run| run.file)
    }
}

/// Returns the plural noun for this kind of recording.
pub(crate) const fn words(kind: RecordingKind) -> &'static str {
    match kind {
        RecordingKind::Gaps => "gaps",
        RecordingKind::Wakeups => "wake-ups",
        RecordingKind::Exits => "exits",
    }
}

/// Formats a figure in its unit; `-` if unknown.
pub(crate) fn value(value: Option<f64>, unit: Unit) -> String {
    match (value, unit) {
        (None, _) => "-".into(),
        (Some(value), Unit::Percent) => percent(value),
        (Some(value), Unit::PerSecond) if value < 100.0 => format!("{value:.1}\u{a0}/s"),
        (Some(value), Unit::PerSecond) => format!("{}\u{a0}/s", count(value.round() as u64)),
        (Some(value), Unit::Nanoseconds) => duration(value.round() as u64),
    }
}

/// Formats a difference in its unit, with its sign. A value too small to be shown has no sign.
pub(crate) fn signed(shift: f64, unit: Unit) -> String {
    let text = value(Some(shift.abs()), unit);
    match shift {
        0.0 => text,
        _ if text.starts_with('<') => text,
        ..0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}
