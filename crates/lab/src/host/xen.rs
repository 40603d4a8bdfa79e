//! Runs cells with a guest of this machine's Xen.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vmnoise_testbed::bed::{self, XenDomain, XenGuest, XenType};
use vmnoise_testbed::lab_program;

use super::load::Loaded;
use super::{HostMachine, said, waiting};
use crate::measuring::{self, Brought, Job, image, on};
use crate::printed;
use crate::scenario::{Cell, GuestType, Measure, Tuning};

/// Name of Dom0 in the list of commands.
pub(super) const SIDE: &str = "Dom0";
/// Time limit for the boot of a guest. Also the longest pause while a guest prints its recordings.
/// A slower guest counts as hung.
const BACKSTOP: Duration = Duration::from_secs(120);
/// Time for which the guest sleeps before its measurements, in milliseconds.
const SLEEP_MS: u32 = 2000;
/// Priority of the guest's QEMU in the papers.
const PRIORITY: i32 = 99;

/// Measures the cell. `cpu` is the physical CPU for the guest's vCPU. `host.cpu` is a CPU of Dom0.
pub(super) fn run(host: &HostMachine, cpu: u32, job: Job<'_>) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let commands = in_guest(cell, measure);
    let words: Vec<&str> = commands.iter().map(String::as_str).collect();
    let kernel = cell.guest_kernel.context("a guest has a kernel")?;
    let programs = ["lab-guest", "lab-vmm"].map(lab_program);
    let programs = programs.into_iter().collect::<Result<Vec<_>>>()?;
    let image = image(kernel, bed::DebianKernel::Cloud);
    let mut guest = XenGuest::boot(
        &domain(cpu, cell)?,
        image,
        &programs,
        measuring::packaged_to_measure(cell).as_slice(),
        &words,
    )?;
    let folder = tempfile::tempdir().context("a folder for what the load says")?;
    let attended = attend(host, job, &mut guest, commands.len(), folder.path());
    let console = guest.console();
    let load = attended.map_err(|error| said::with_console(&error, &console))?;
    let outputs = guest.outputs()?;
    let (before, measured) = outputs.split_at(measuring::begins(SLEEP_MS).len());
    said::ensure_well(before)?;
    let on_host: Vec<String> = [format!("xl create {}", guest.settings())]
        .into_iter()
        .chain(load)
        .collect();
    Ok(Brought {
        recordings: printed::recordings(cell, measure, measured).context("in the guest")?,
        console,
        commands: [on(SIDE, &on_host), on("guest", &commands)].concat(),
    })
}

/// Returns the commands of the guest. They print the recordings, because a disk for the guest would
/// need a kernel module in Dom0.
fn in_guest(cell: &Cell, measure: &Measure) -> Vec<String> {
    let mut commands = measuring::begins(SLEEP_MS);
    commands.extend(printed::commands(cell, measure));
    commands
}

fn domain(cpu: u32, cell: &Cell) -> Result<XenDomain> {
    let kind = match cell.guest_type.context("a guest of Xen has a type")? {
        GuestType::Pv => XenType::Pv,
        GuestType::Pvh => XenType::Pvh,
        GuestType::Hvm => XenType::Hvm,
    };
    Ok(XenDomain {
        cpu: Some(cpu),
        command_line: measuring::command_line(cell),
        emulates_tsc: cell.tuning == Tuning::TscEmulated,
        ..XenDomain::of(kind)
    })
}

/// Prepares Dom0 while the guest sleeps, and waits for the guest's end. Returns the command of the
/// load; `None` without a load.
fn attend(
    host: &HostMachine,
    job: Job<'_>,
    guest: &mut XenGuest,
    commands: usize,
    folder: &Path,
) -> Result<Option<String>> {
    let Job {
        cell,
        measure,
        asked_to_end,
        ..
    } = job;
    let wait = |guest: &mut XenGuest, count, within| {
        let what = format!("command {count} of the guest");
        waiting::until(&what, within, asked_to_end, || guest.has_reported(count))
    };
    wait(guest, 1, BACKSTOP)?;
    if cell.guest_type == Some(GuestType::Hvm) {
        // On another CPU of Dom0, QEMU would not have to wait for the load. The papers measure this
        // wait.
        guest.pin_vmm(host.cpu)?;
    }
    if cell.tuning == Tuning::VmmAtFifo99 {
        guest.set_vmm_fifo(PRIORITY)?;
    }
    let mut load = Loaded::start(host, job, folder)?;
    ensure!(
        !guest.has_reported(2)?,
        "the guest began before all was set up: this Dom0 is too busy"
    );
    let measured = Duration::from_nanos(measure.duration.ns()) * measure.repeat;
    let count = measuring::until_measured(measure);
    wait(guest, count, 2 * measured + BACKSTOP)?;
    load.has_worked()?;
    let command = load.command();
    drop(load);
    // A console is slow, and the length of a recording is unknown. So the guest counts as hung only
    // if it prints nothing for a while.
    while !guest.has_reported(commands)? {
        let said = guest.said_bytes();
        let what = "the guest to hand out its recordings";
        waiting::until(what, BACKSTOP, asked_to_end, || {
            Ok(guest.said_bytes() > said || guest.has_reported(commands)?)
        })?;
    }
    Ok(command)
}
