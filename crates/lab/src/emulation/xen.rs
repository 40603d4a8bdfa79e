//! Runs cells of an emulated Xen. A cell measures either a guest or Dom0.

use anyhow::{Context, Result};
use vmnoise_testbed::bed::{self, XenLab, XenReport};
use vmnoise_testbed::lab_program;

use crate::measuring::{self, Brought, Job, image, on};
use crate::printed;
use crate::scenario::{Cell, CellKernel, GuestType, Hypervisor, Measure, Tuning};

/// Command with which Dom0 waits until the guest has booted.
const UNTIL_THERE: &str = "lab-xen told 1";

pub(super) fn run(job: Job<'_>) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let is_dom0 = cell.hypervisor == Hypervisor::Dom0;
    let measured = match is_dom0 {
        true => printed::commands_beside_load(cell, measure),
        false => printed::commands(cell, measure),
    };
    let measured: Vec<&str> = measured.iter().map(String::as_str).collect();
    let load_works = Vec::from_iter(measuring::load_works(cell));
    let until_measured = format!("lab-xen told {}", 1 + measure.repeat);
    let (mut guest, mut dom0) = (vec![measuring::THERE], Vec::new());
    if cell.tuning == Tuning::VmmAtFifo99 && cell.guest_type == Some(GuestType::Hvm) {
        dom0.push("lab-xen fifo 99");
    }
    let load = measuring::load(cell);
    if is_dom0 || !load.is_empty() {
        dom0.push(UNTIL_THERE);
    }
    dom0.extend(load.iter().map(String::as_str));
    if is_dom0 {
        dom0.extend(measured);
    } else {
        guest.extend(measured);
        for works in &load_works {
            dom0.extend([&*until_measured, works]);
        }
    }
    let mut lab = lab(cell)?;
    for packaged in measuring::packaged(cell) {
        lab = lab.packaged(packaged);
    }
    let report = lab
        .seed(job.seed)
        .until(job.asked_to_end)
        .run(&dom0, &guest)?;
    Ok(Brought {
        recordings: recordings(cell, measure, &report)?,
        console: format!("{}\n{}", report.dom0.console, report.guest_console),
        commands: [on("Dom0", &dom0), on("guest", &guest)].concat(),
    })
}

/// Returns the recordings. Fails if Dom0 could not start the load or set a priority, because the
/// cell would then measure another system.
fn recordings(
    cell: &Cell,
    measure: &Measure,
    report: &XenReport,
) -> Result<Vec<(String, Vec<u8>)>> {
    for output in &report.dom0.outputs {
        output.text().context("in Dom0")?;
    }
    let (outputs, side) = match cell.hypervisor {
        Hypervisor::Dom0 => (&report.dom0.outputs, "in Dom0"),
        _ => (&report.guest, "in the guest"),
    };
    printed::recordings(cell, measure, outputs).context(side)
}

fn lab(cell: &Cell) -> Result<XenLab> {
    let lab = match cell.guest_type {
        // This guest is not measured. Dom0 is measured after the guest has ended, in the virtual
        // time of a host without Xen.
        None => XenLab::pv().virtual_time(0),
        Some(GuestType::Pv) => XenLab::pv(),
        Some(GuestType::Pvh) => XenLab::pvh(),
        Some(GuestType::Hvm) => XenLab::hvm(),
    };
    let guest_kernel = cell.guest_kernel.unwrap_or(CellKernel::Ordinary);
    let lab = lab
        .command_line(&measuring::command_line(cell))
        .dom0_kernel(image(cell.host_kernel, bed::DebianKernel::Plain))
        .guest_kernel(image(guest_kernel, bed::DebianKernel::Cloud))
        .program(&lab_program("lab-guest")?)
        .program(&lab_program("lab-disturb")?);
    Ok(match cell.tuning {
        Tuning::CreditScheduler => lab.scheduler("credit"),
        Tuning::TscEmulated => lab.emulate_tsc(),
        _ => lab,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use vmnoise_testbed::bed::{CommandOutput, LabReport};

    use super::*;
    use crate::library;
    use crate::scenario::Scenario;

    fn ended(status: i32, stdout: &str) -> CommandOutput {
        CommandOutput {
            status: Some(status),
            stdout: stdout.to_owned(),
            stderr: "SCHED_FIFO: not permitted".to_owned(),
        }
    }

    /// Returns the recordings of a guest that measures once. `set_up` is the output of Dom0's
    /// commands.
    fn recordings_where(set_up: CommandOutput) -> Result<Vec<(String, Vec<u8>)>> {
        let text = library::text("xen-priority-inversion").unwrap();
        let scenario = Scenario::parse(text).unwrap();
        let report = XenReport {
            // The guest's measurement succeeds with an empty recording.
            guest: vec![ended(0, ""), ended(0, "00")],
            guest_console: String::new(),
            dom0: LabReport {
                kernel_version: String::new(),
                outputs: vec![set_up],
                console: String::new(),
            },
        };
        recordings(&scenario.cells()[0], &scenario.measure, &report)
    }

    #[test]
    fn what_dom0_could_not_set_up_fails_the_cell() {
        assert_eq!(recordings_where(ended(0, "")).unwrap().len(), 1);
        let failed = recordings_where(ended(1, "")).unwrap_err();
        let failed = format!("{failed:#}");
        assert!(
            failed.contains("in Dom0") && failed.contains("not permitted"),
            "{failed}"
        );
    }
}
