//! A host without a guest.

use anyhow::{Context, Result};
use vmnoise_labs::bed::{self, Lab};
use vmnoise_labs::lab_program;

use super::measuring::{self, SYSTEM_CALLS};
use super::{Brought, image, on};
use crate::scenario::{Cell, Load, Measure};

pub(super) fn run(cell: &Cell, measure: &Measure, seed: u64) -> Result<Brought> {
    let mut commands = Vec::new();
    if cell.load == Load::SystemCalls {
        commands.push(SYSTEM_CALLS.to_owned());
    }
    for repetition in measuring::repetitions(measure) {
        commands.push(measuring::command(cell, measure, repetition));
    }
    for repetition in measuring::repetitions(measure) {
        commands.push(format!(
            "lab-guest print {}",
            measuring::recording(repetition)
        ));
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let report = Lab::kernel(image(cell.host_kernel, bed::Kernel::Cloud))
        .virtual_time(0)
        .seed(seed)
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?)
        .run(&commands)?;
    let (measured, printed) = report
        .outputs
        .split_at_checked(measure.repeat as usize)
        .context("too few results")?;
    for output in measured {
        output.text()?;
    }
    let recordings = measuring::repetitions(measure).zip(printed);
    let recordings = recordings.map(|(at, output)| Ok((measuring::file(at), output.file()?)));
    Ok(Brought {
        recordings: recordings.collect::<Result<_>>()?,
        console: report.console,
        commands: on("host", &commands),
    })
}
