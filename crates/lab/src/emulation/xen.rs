//! A guest of Xen beside Dom0.

use anyhow::{Context, Result, ensure};
use vmnoise_labs::bed::{self, XenLab};
use vmnoise_labs::lab_program;

use super::measuring::{self, SYSTEM_CALLS};
use super::{Brought, image, on};
use crate::scenario::{Cell, GuestType, Load, Measure, Tuning};

/// `xen_timer_slop` of 1 us (Documentation/admin-guide/kernel-parameters.txt, in ns).
const SLOP: &str = "xen_timer_slop=1000";

pub(super) fn run(cell: &Cell, measure: &Measure, seed: u64) -> Result<Brought> {
    let mut guest = vec!["vmnoise --version".to_owned()];
    for repetition in measuring::repetitions(measure) {
        guest.push(measuring::command(cell, measure, repetition));
    }
    for repetition in measuring::repetitions(measure) {
        guest.push(format!(
            "lab-guest print {}",
            measuring::recording(repetition)
        ));
    }
    let guest: Vec<&str> = guest.iter().map(String::as_str).collect();
    let mut dom0 = Vec::new();
    if cell.tuning == Tuning::VmmAtFifo99 && cell.guest_type == Some(GuestType::Hvm) {
        dom0.push("lab-xen fifo 99");
    }
    if cell.load == Load::SystemCalls {
        dom0.extend(["lab-xen told 1", SYSTEM_CALLS]);
    }
    let report = lab(cell)?.seed(seed).run(&dom0, &guest)?;
    let measured = 1 + measure.repeat as usize;
    ensure!(report.guest.len() == measured + measure.repeat as usize);
    for output in &report.guest[..measured] {
        output.text().context("in the guest")?;
    }
    let recordings = measuring::repetitions(measure).zip(&report.guest[measured..]);
    let recordings = recordings.map(|(at, output)| Ok((measuring::file(at), output.file()?)));
    Ok(Brought {
        recordings: recordings.collect::<Result<_>>()?,
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
