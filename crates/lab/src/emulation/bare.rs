//! A host without a guest.

use anyhow::Result;
use vmnoise_labs::bed::{self, Lab};
use vmnoise_labs::lab_program;

use super::printed::{self, SYSTEM_CALLS};
use crate::measuring::{Brought, image, on};
use crate::scenario::{Cell, Load, Measure};

pub(super) fn run(cell: &Cell, measure: &Measure, seed: u64) -> Result<Brought> {
    let mut commands = Vec::new();
    if cell.load == Load::SystemCalls {
        commands.push(SYSTEM_CALLS.to_owned());
    }
    commands.extend(printed::commands(cell, measure));
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let report = Lab::kernel(image(cell.host_kernel, bed::Kernel::Cloud))
        .virtual_time(0)
        .seed(seed)
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?)
        .run(&commands)?;
    Ok(Brought {
        recordings: printed::recordings(measure, &report.outputs)?,
        console: report.console,
        commands: on("host", &commands),
    })
}
