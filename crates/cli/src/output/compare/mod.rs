//! Recordings side by side, as text, as `vmnoise.compare/1` and as a page.

mod document;
mod page;
mod text;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::compare::{Kind, Measured, Row, Unit};

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

/// A condition, and what a run has of it.
pub struct Checked {
    /// As it was typed.
    pub condition: String,
    /// Which run, by its place.
    pub run: usize,
    /// The run's figure; `None` where unknown.
    pub value: Option<f64>,
    /// What `value` is in.
    pub unit: Unit,
    /// Whether the run is so; `None` where unknown.
    pub holds: Option<bool>,
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
    /// One for each recording but the first.
    pub comparisons: Vec<Comparison>,
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
