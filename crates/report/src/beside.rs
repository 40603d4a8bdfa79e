//! What a page of recordings beside each other is about, and its figures in words.

use vmnoise_events::RunFacts;
use vmnoise_judge::compare::{Groups, Kind, Measured, Row, Unit};

use crate::figures::{count, duration, percent};

/// A recording, read.
#[derive(Debug, Clone, Copy)]
pub struct Recording<'a> {
    /// Where it lies.
    pub file: &'a str,
    /// What was true before its first event.
    pub facts: &'a RunFacts,
    /// Its figures.
    pub measured: &'a Measured,
}

/// The first recording and another.
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    /// Which one, by its place.
    pub second: usize,
    /// Every figure.
    pub rows: &'a [Row],
}

/// Two groups of recordings.
#[derive(Debug, Clone, Copy)]
pub struct GroupsBeside<'a> {
    /// So many of the recordings, the first ones, are of before; the others are of after.
    pub before: usize,
    /// Every figure.
    pub groups: &'a Groups,
    /// Whether every run before the change began before any after it.
    pub is_one_after_the_other: bool,
}

/// A condition, and what a recording has of it.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// As it was typed.
    pub condition: &'a str,
    /// Which recording, by its place.
    pub run: usize,
    /// Its figure; `None` where unknown.
    pub value: Option<f64>,
    /// What that is in.
    pub unit: Unit,
    /// Whether it is so; `None` where unknown.
    pub holds: Option<bool>,
}

/// What becomes a page.
#[derive(Debug)]
pub struct ComparePage<'a> {
    /// What the recordings hold.
    pub kind: Kind,
    /// Shorter gaps are left out, nanoseconds.
    pub threshold_ns: u64,
    /// Length of a window, nanoseconds.
    pub window_ns: u64,
    /// The recordings; the first is what the others are held against.
    pub runs: Vec<Recording<'a>>,
    /// Where the recordings are two groups.
    pub groups: Option<GroupsBeside<'a>>,
    /// One for each other recording; none of groups.
    pub pairs: Vec<Beside<'a>>,
    /// The conditions.
    pub judged: Vec<Judged<'a>>,
    /// The version of the program.
    pub tool_version: &'a str,
}

impl ComparePage<'_> {
    /// The file of a run, by its place.
    pub(crate) fn file(&self, place: usize) -> &str {
        self.runs.get(place).map_or("-", |run| run.file)
    }
}

/// What recordings hold, in words.
pub(crate) const fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Gaps => "gaps",
        Kind::Wakeups => "wake-ups",
        Kind::Exits => "exits",
    }
}

/// A figure in its unit; `-` where unknown.
pub(crate) fn value(value: Option<f64>, unit: Unit) -> String {
    match (value, unit) {
        (None, _) => "-".into(),
        (Some(value), Unit::Percent) => percent(value),
        (Some(value), Unit::PerSecond) if value < 100.0 => format!("{value:.1}\u{a0}/s"),
        (Some(value), Unit::PerSecond) => format!("{}\u{a0}/s", count(value.round() as u64)),
        (Some(value), Unit::Nanoseconds) => duration(value.round() as u64),
    }
}

/// A difference in its unit; what is no more than a trace has no sign.
pub(crate) fn signed(shift: f64, unit: Unit) -> String {
    let text = value(Some(shift.abs()), unit);
    match shift {
        0.0 => text,
        _ if text.starts_with('<') => text,
        ..0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}
