//! Runs cells with a guest of this machine's KVM. The machine records the guest's exits.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vmnoise_testbed::bed::{self, KvmGuest};
use vmnoise_testbed::lab_program;

use super::load::Loaded;
use super::recorder::Recorder;
use super::{HostMachine, said, waiting};
use crate::measuring::{self, Brought, Job, image, on};
use crate::scenario::Tuning;

/// Time limit for the boot of a guest, and for the transfer of its files. A slower guest counts as
/// hung.
const BACKSTOP: Duration = Duration::from_secs(120);
/// Times for which the guest sleeps before and after its measurements, in milliseconds.
const SLEEPS_MS: [u32; 2] = [2000, 500];
/// Priority of the vCPUs in the papers.
const PRIORITY: i32 = 99;

pub(super) fn run(host: &HostMachine, job: Job<'_>) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let commands = measuring::in_guest(cell, measure, SLEEPS_MS);
    let words: Vec<&str> = commands.iter().map(String::as_str).collect();
    let kernel = cell.guest_kernel.context("a guest has a kernel")?;
    let programs = ["lab-guest", "lab-vmm"].map(lab_program);
    let programs = programs.into_iter().collect::<Result<Vec<_>>>()?;
    let mut guest = KvmGuest::boot(
        image(kernel, bed::DebianKernel::Cloud),
        &programs,
        measuring::packaged_to_measure(cell).as_slice(),
        &words,
    )?;
    let folder = tempfile::tempdir().context("a folder for the host's recording")?;
    let attended = attend(host, job, &mut guest, folder.path());
    let console = guest.console();
    let on_host = attended.map_err(|error| said::with_console(&error, &console))?;
    let saved = guest.saved(measure.repeat as usize)?;
    let mut recordings: Vec<(String, Vec<u8>)> =
        measuring::files(cell, measure).zip(saved).collect();
    let host_file = std::fs::read(folder.path().join(measuring::HOST))?;
    recordings.push((measuring::HOST.to_owned(), host_file));
    Ok(Brought {
        recordings,
        console,
        commands: [on("host", &on_host), on("guest", &commands)].concat(),
    })
}

/// Prepares the host while the guest sleeps, records the guest's exits, and waits for the guest's
/// end. Returns the commands that ran on the host.
fn attend(
    host: &HostMachine,
    job: Job<'_>,
    guest: &mut KvmGuest,
    folder: &Path,
) -> Result<Vec<String>> {
    let Job {
        cell,
        measure,
        asked_to_end,
        ..
    } = job;
    let wait = |guest: &mut KvmGuest, count, within| {
        let what = format!("command {count} of the guest");
        waiting::until(&what, within, asked_to_end, || guest.has_reported(count))
    };
    wait(guest, 1, BACKSTOP)?;
    guest.stop()?;
    ensure!(
        !guest.has_reported(2)?,
        "the guest began before it could be set up: this host is too busy"
    );
    guest.pin(host.cpu)?;
    match cell.tuning {
        Tuning::VcpusAtFifo99 => guest.set_vcpu_fifo(PRIORITY)?,
        Tuning::VmmAtFifo99 => guest.set_vmm_fifo(PRIORITY)?,
        _ => {}
    }
    let recorder = Recorder::start(&folder.join(measuring::HOST), asked_to_end)?;
    let mut load = Loaded::start(host, job, folder)?;
    let commands = [Some(Recorder::command()), load.command()];
    guest.resume()?;
    let measured = Duration::from_nanos(measure.duration.ns()) * measure.repeat;
    let count = measuring::until_measured(measure);
    wait(guest, count, 2 * measured + BACKSTOP)?;
    load.has_worked()?;
    drop(load);
    recorder.end(asked_to_end)?;
    let last = count + 2;
    wait(guest, last, BACKSTOP)?;
    said::ensure_well(&guest.outputs()?)?;
    Ok(commands.into_iter().flatten().collect())
}
