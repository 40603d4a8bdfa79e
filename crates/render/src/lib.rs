//! Outputs of the commands, with a module for each output, and the live frame. Results go to
//! stdout, everything else to stderr.

#![forbid(unsafe_code)]

mod advice;
pub mod audit;
pub mod caveats;
mod cells;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod exercise;
pub mod exits;
pub mod format;
pub mod frame;
mod from_feed;
pub mod join;
mod json;
pub mod json_lines;
mod junit;
pub mod osnoise_hist;
mod osnoise_table;
pub mod osnoise_top;
pub mod recorded;
mod rtla;
pub mod run;
pub mod scale;
pub mod schedule;
mod screen;
mod stop;
mod stream;
pub mod summary_view;
mod table;
mod text;
pub mod timerlat;
pub mod trace;
mod tree;
pub mod tune_timer;
pub mod vm_list;

use anyhow::{Context, Result};
use vmnoise_console::stdout;
use vmnoise_events::RunFacts;
use vmnoise_explain::Summary;

use self::format::Format;

/// Prints the summary of a live or a replayed run.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(facts: &RunFacts, summary: &Summary, format: Format) -> Result<()> {
    match format {
        Format::Text => write(text::render(facts, summary).as_bytes()),
        Format::Json => {
            let mut out = Vec::new();
            json::write(&mut out, &json::SummaryDocument::new(facts, summary))?;
            write(&out)
        }
    }
}

const CANNOT_WRITE: &str = "cannot write the result to stdout";

/// Writes a finished result to stdout.
pub fn write(result: &[u8]) -> Result<()> {
    stdout::write_all(result).context(CANNOT_WRITE)
}
