//! A guest of Xen beside Dom0.

use anyhow::{Context, Result};
use vmnoise_labs::bed::{self, XenLab};
use vmnoise_labs::lab_program;

use super::printed::{self, SYSTEM_CALLS};
use crate::measuring::{Brought, image, on};
use crate::scenario::{Cell, GuestType, Load, Measure, Tuning};

/// `xen_timer_slop` of 1 us (Documentation/admin-guide/kernel-parameters.txt, in ns).
const SLOP: &str = "xen_timer_slop=1000";

pub(super) fn run(cell: &Cell, measure: &Measure, seed: u64) -> Result<Brought> {
    let mut guest = vec!["vmnoise --version".to_owned()];
    guest.extend(printed::commands(cell, measure));
    let guest: Vec<&str> = guest.iter().map(String::as_str).collect();
    let mut dom0 = Vec::new();
    if cell.tuning == Tuning::VmmAtFifo99 && cell.guest_type == Some(GuestType::Hvm) {
        dom0.push("lab-xen fifo 99");
    }
    if cell.load == Load::SystemCalls {
        dom0.extend(["lab-xen told 1", SYSTEM_CALLS]);
    }
    let report = lab(cell)?.seed(seed).run(&dom0, &guest)?;
    let (_, outputs) = report.guest.split_first().context("no results")?;
    Ok(Brought {
        recordings: printed::recordings(measure, outputs).context("in the guest")?,
        console: format!("{}\n{}", report.dom0.console, report.guest_console),
        commands: [on("Dom0", &dom0), on("guest", &guest)].concat(),
    })
}

fn lab(cell: &Cell) -> Result<XenLab> {
    let lab = match cell.guest_type.context("a guest of Xen has a type")? {
        GuestType::Pv => XenLab::pv(),
        GuestType::Pvh => XenLab::pvh(),
        GuestType::Hvm => XenLab::hvm(),
    };
    let guest_kernel = cell.guest_kernel.context("a guest has a kernel")?;
    let lab = lab
        .dom0_kernel(image(cell.host_kernel, bed::Kernel::Plain))
        .guest_kernel(image(guest_kernel, bed::Kernel::Cloud))
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?);
    Ok(match cell.tuning {
        Tuning::TimerSlop => lab.command_line(SLOP),
        Tuning::TscEmulated => lab.emulate_tsc(),
        _ => lab,
    })
}
