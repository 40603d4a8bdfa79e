//! Commands for machines that can pass on data only through their console. They print their
//! recordings.

use anyhow::{Context, Result, ensure};
use vmnoise_testbed::bed::CommandOutput;

use crate::measuring;
use crate::scenario::{Cell, Measure};

/// Returns the commands that make all repetitions, and then print the recordings as text.
pub(crate) fn commands(cell: &Cell, measure: &Measure) -> Vec<String> {
    measured(cell, measure)
        .chain(files(cell, measure))
        .collect()
}

/// Returns the commands of [`commands`] for the machine that runs the load. One more command checks
/// that the load lasted until the end.
pub(crate) fn commands_beside_load(cell: &Cell, measure: &Measure) -> Vec<String> {
    let load_works = measuring::load_works(cell);
    let measured = measured(cell, measure).chain(load_works);
    measured.chain(files(cell, measure)).collect()
}

fn measured(cell: &Cell, measure: &Measure) -> impl Iterator<Item = String> {
    measuring::inside(cell, measure).map(|file| measuring::command(cell, measure, &file))
}

fn files(cell: &Cell, measure: &Measure) -> impl Iterator<Item = String> {
    measuring::inside(cell, measure).map(|file| format!("lab-guest print {file}"))
}

/// Returns the name and the content of each recording. The outputs of the printing commands must be
/// the last ones.
///
/// # Errors
/// If a command failed.
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
