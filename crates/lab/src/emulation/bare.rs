//! A host without a guest, or with vmnoise's own, which it measures by itself.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use vmnoise_labs::bed::{self, Lab};
use vmnoise_labs::lab_program;

use super::printed;
use crate::measuring::{self, Brought, image, on};
use crate::scenario::{Cell, Measure};

pub(super) fn run(
    cell: &Cell,
    measure: &Measure,
    seed: u64,
    asked_to_end: &Arc<AtomicBool>,
) -> Result<Brought> {
    let mut commands: Vec<String> = measuring::load(cell)
        .map(str::to_owned)
        .into_iter()
        .collect();
    commands.extend(printed::commands(cell, measure));
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let report = Lab::kernel(image(cell.host_kernel, bed::Kernel::Cloud))
        .virtual_time(0)
        .seed(seed)
        .until(asked_to_end)
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?)
        .run(&commands)?;
    Ok(Brought {
        recordings: printed::recordings(measure, &report.outputs)?,
        console: report.console,
        commands: on("host", &commands),
    })
}
