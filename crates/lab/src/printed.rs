//! What a machine measures itself, and prints: its console is the only way out of it.

use anyhow::{Context, Result, ensure};
use vmnoise_labs::bed::CommandOutput;

use crate::measuring;
use crate::scenario::{Cell, Measure};

/// All repetitions, and then their recordings one after the other, as text.
pub(crate) fn commands(cell: &Cell, measure: &Measure) -> Vec<String> {
    let measured =
        measuring::inside(cell, measure).map(|file| measuring::command(cell, measure, &file));
    let printed = measuring::inside(cell, measure).map(|file| format!("lab-guest print {file}"));
    measured.chain(printed).collect()
}

/// The recordings by the names of their files: what those commands said, at the end of all that was said.
///
/// # Errors
/// If one of them failed, or one before them.
pub(crate) fn recordings(
    cell: &Cell,
    measure: &Measure,
    outputs: &[CommandOutput],
) -> Result<Vec<(String, Vec<u8>)>> {
    let count = measure.repeat as usize;
    let last = outputs.len().checked_sub(count);
    let (others, printed) = outputs.split_at(last.context("no results")?);
    ensure!(others.len() >= count, "{} results", outputs.len());
    for output in others {
        output.text()?;
    }
    let named = measuring::files(cell, measure).zip(printed);
    named
        .map(|(file, output)| Ok((file, output.file()?)))
        .collect()
}
