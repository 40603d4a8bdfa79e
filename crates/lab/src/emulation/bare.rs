//! Runs cells of an emulated host. The host is measured itself, or it measures vmnoise's own guest.

use anyhow::Result;
use vmnoise_testbed::bed::{self, Lab};
use vmnoise_testbed::lab_program;

use crate::measuring::{self, Brought, Job, image, on};
use crate::printed;
use crate::scenario::Load;

pub(super) fn run(job: Job<'_>) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let mut commands = measuring::load(cell);
    commands.extend(printed::commands_beside_load(cell, measure));
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let mut lab = Lab::kernel(image(cell.host_kernel, bed::DebianKernel::Cloud))
        .virtual_time(0)
        .seed(job.seed)
        .until(job.asked_to_end);
    if cell.load == Load::Network {
        lab = lab.network();
    }
    for program in ["lab-guest", "lab-disturb", "lab-network"] {
        lab = lab.program(&lab_program(program)?);
    }
    for packaged in measuring::packaged(cell) {
        lab = lab.packaged(packaged);
    }
    let report = lab.run(&commands)?;
    Ok(Brought {
        recordings: printed::recordings(cell, measure, &report.outputs)?,
        console: report.console,
        commands: on("host", &commands),
    })
}
