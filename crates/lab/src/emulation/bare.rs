//! A host without a guest, or with vmnoise's own, which it measures by itself.

use anyhow::Result;
use vmnoise_labs::bed::{self, Lab};
use vmnoise_labs::lab_program;

use crate::measuring::{self, Brought, Job, image, on};
use crate::printed;

pub(super) fn run(job: Job<'_>) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let mut commands = Vec::from_iter(measuring::load(cell).map(str::to_owned));
    commands.extend(printed::commands(cell, measure));
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let report = Lab::kernel(image(cell.host_kernel, bed::Kernel::Cloud))
        .virtual_time(0)
        .seed(job.seed)
        .until(job.asked_to_end)
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?)
        .run(&commands)?;
    Ok(Brought {
        recordings: printed::recordings(measure, &report.outputs)?,
        console: report.console,
        commands: on("host", &commands),
    })
}
