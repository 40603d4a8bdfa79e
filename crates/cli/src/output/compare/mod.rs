//! Recordings side by side, as text, as `vmnoise.compare/1` and as a page.

mod document;
mod figures;
mod groups_document;
mod groups_text;
mod page;
mod text;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_judge::compare::{Answer, Groups, Kind, Measured, Row, Unit};

use crate::output::format::CompareFormat;

/// A recording, read.
pub struct Run {
    /// Where it lies.
    pub file: String,
    /// What is known of its run.
    pub facts: RunFacts,
    /// Its figures.
    pub measured: Measured,
}

/// The first run and another one.
pub struct Comparison {
    /// Which one, by its place.
    pub second: usize,
    /// Every figure.
    pub rows: Vec<Row>,
}

/// The first runs and the others, as groups.
pub struct TwoGroups {
    /// So many of the runs, the first ones, are of before.
    pub before: usize,
    /// So many, the others, are of after.
    pub after: usize,
    /// Whether every run before the change began before any after it: what else changed meanwhile
    /// cannot be told from the change.
    pub is_one_after_the_other: bool,
    /// Every figure.
    pub groups: Groups,
}

impl TwoGroups {
    /// The group of a run, by its place.
    fn name_of(&self, place: usize) -> &'static str {
        match place < self.before {
            true => "before",
            false => "after",
        }
    }
}

/// A condition, and what a run has of it.
pub struct Checked {
    /// As it was typed.
    pub condition: String,
    /// Which run, by its place.
    pub run: usize,
    /// What the run's figure is in.
    pub unit: Unit,
    /// What the run has of it.
    pub answer: Answer,
}

/// All that is printed.
pub struct Compared {
    /// What the recordings hold.
    pub kind: Kind,
    /// Gaps below are left out of every run, nanoseconds.
    pub threshold_ns: u64,
    /// Length of a window, nanoseconds.
    pub window_ns: u64,
    /// The recordings.
    pub runs: Vec<Run>,
    /// One for each recording but the first; none of groups.
    pub comparisons: Vec<Comparison>,
    /// Where two groups were named.
    pub groups: Option<TwoGroups>,
    /// The conditions, for each recording that they are tested on.
    pub checks: Vec<Checked>,
}

/// Prints it all.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(format: CompareFormat, compared: &Compared) -> Result<()> {
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
