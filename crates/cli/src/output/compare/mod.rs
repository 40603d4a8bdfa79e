//! Recordings side by side, as text, as `vmnoise.compare/1` and as a page.

mod document;
mod page;
mod text;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::compare::{Row, Sample, Unit};

use crate::output::format::CompareFormat;

/// A recording, read.
pub struct Run {
    /// Where it lies.
    pub file: String,
    /// What is known of its run.
    pub facts: RunFacts,
    /// Its figures.
    pub sample: Sample,
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

/// Prints it all.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(
    format: CompareFormat,
    threshold_ns: u64,
    window_ns: u64,
    runs: &[Run],
    comparisons: &[Comparison],
    checks: &[Checked],
) -> Result<()> {
    let out = match format {
        CompareFormat::Text => {
            text::render(threshold_ns, window_ns, runs, comparisons, checks).into_bytes()
        }
        CompareFormat::Json => {
            let mut out = Vec::new();
            let document =
                document::Document::new(threshold_ns, window_ns, runs, comparisons, checks);
            super::json::write(&mut out, &document)?;
            out
        }
        CompareFormat::Html => {
            page::render(threshold_ns, window_ns, runs, comparisons, checks)?.into_bytes()
        }
    };
    super::write(&out)
}
