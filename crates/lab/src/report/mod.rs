//! Report that compares the papers' figures with the measured ones. It consists of a page without
//! network and scripts, the same text as Markdown, and a CSV file.

mod banner;
mod cdf;
mod csv;
mod measured;
mod page;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::folder::Folder;
use measured::Measured;
pub use words::brief;

/// Writes the page, and the Markdown and CSV files next to it.
///
/// # Errors
/// If the results of a run cannot be read, or a file cannot be written.
pub fn write(folders: &[Folder], page: &Path) -> Result<()> {
    let all: Vec<Measured> = folders.iter().map(Measured::of).collect::<Result<_>>()?;
    let write = |path: &Path, text: String| {
        fs::write(path, text).with_context(|| path.display().to_string())
    };
    write(page, page::page(&all)?)?;
    write(&page.with_extension("md"), text::text(&all))?;
    write(&page.with_extension("csv"), csv::text(&all))
}
