//! A guest of Xen beside Dom0.

use anyhow::{Context, Result};
use vmnoise_labs::bed::{self, XenLab};
use vmnoise_labs::lab_program;

use crate::measuring::{self, Brought, Job, image, on};
use crate::printed;
use crate::scenario::{Cell, GuestType, Hypervisor, Kernel, Tuning};

/// Until it is, Dom0 sleeps.
const UNTIL_THERE: &str = "lab-xen told 1";

pub(super) fn run(job: Job<'_>) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let measured = printed::commands(cell, measure);
    let measured: Vec<&str> = measured.iter().map(String::as_str).collect();
    let (mut guest, mut dom0) = (vec![measuring::THERE], Vec::new());
    if cell.tuning == Tuning::VmmAtFifo99 && cell.guest_type == Some(GuestType::Hvm) {
        dom0.push("lab-xen fifo 99");
    }
    let load = measuring::load(cell);
    let is_dom0 = cell.hypervisor == Hypervisor::Dom0;
    if is_dom0 || load.is_some() {
        dom0.push(UNTIL_THERE);
    }
    dom0.extend(load.as_deref());
    match is_dom0 {
        true => dom0.extend(measured),
        false => guest.extend(measured),
    }
    let mut lab = lab(cell)?;
    for packaged in measuring::packaged(cell) {
        lab = lab.packaged(packaged);
    }
    let report = lab
        .seed(job.seed)
        .until(job.asked_to_end)
        .run(&dom0, &guest)?;
    let (outputs, side) = match is_dom0 {
        true => (&report.dom0.outputs, "in Dom0"),
        false => (&report.guest, "in the guest"),
    };
    Ok(Brought {
        recordings: printed::recordings(cell, measure, outputs).context(side)?,
        console: format!("{}\n{}", report.dom0.console, report.guest_console),
        commands: [on("Dom0", &dom0), on("guest", &guest)].concat(),
    })
}

fn lab(cell: &Cell) -> Result<XenLab> {
    let lab = match cell.guest_type {
        // Dom0 itself is measured when this guest has ended, by the clock of a host without Xen.
        None => XenLab::pv().virtual_time(0),
        Some(GuestType::Pv) => XenLab::pv(),
        Some(GuestType::Pvh) => XenLab::pvh(),
        Some(GuestType::Hvm) => XenLab::hvm(),
    };
    let guest_kernel = cell.guest_kernel.unwrap_or(Kernel::Ordinary);
    let lab = lab
        .command_line(&measuring::command_line(cell))
        .dom0_kernel(image(cell.host_kernel, bed::Kernel::Plain))
        .guest_kernel(image(guest_kernel, bed::Kernel::Cloud))
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?);
    Ok(match cell.tuning {
        Tuning::CreditScheduler => lab.scheduler("credit"),
        Tuning::TscEmulated => lab.emulate_tsc(),
        _ => lab,
    })
}
