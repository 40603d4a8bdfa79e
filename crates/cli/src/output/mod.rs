//! One file per output. Results go to stdout, all else to stderr.

pub mod doctor;
mod json;
pub mod live;
mod table;
mod text;

use std::io::Write;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::Summary;

use crate::args::Format;

/// Prints the summary of a run, live or replayed.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(facts: &RunFacts, summary: &Summary, format: Format) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Text => out.write_all(text::render(facts, summary).as_bytes())?,
        Format::Json => json::write(&mut out, &json::SummaryDocument::new(facts, summary))?,
    }
    out.flush()?;
    Ok(())
}
