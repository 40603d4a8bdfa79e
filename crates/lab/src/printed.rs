//! What a machine measures itself, and prints: its console is the only way out of it.

use anyhow::{Result, ensure};
use vmnoise_labs::bed::CommandOutput;

use crate::measuring;
use crate::scenario::{Cell, Measure};

/// All repetitions, and then their recordings one after the other, as text.
pub(crate) fn commands(cell: &Cell, measure: &Measure) -> Vec<String> {
    let measured = measuring::inside(measure).map(|file| measuring::command(cell, measure, &file));
    let printed = measuring::inside(measure).map(|file| format!("lab-guest print {file}"));
    measured.chain(printed).collect()
}

/// What those commands said, and nothing else: the recordings by the names of their files.
///
/// # Errors
/// If one of them failed.
pub(crate) fn recordings(
    measure: &Measure,
    outputs: &[CommandOutput],
) -> Result<Vec<(String, Vec<u8>)>> {
    let count = measure.repeat as usize;
    ensure!(outputs.len() == 2 * count, "{} results", outputs.len());
    let (measured, printed) = outputs.split_at(count);
    for output in measured {
        output.text()?;
    }
    let named = measuring::files(measure).zip(printed);
    named
        .map(|(file, output)| Ok((file, output.file()?)))
        .collect()
}
