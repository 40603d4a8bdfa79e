//! What is done to a VMM, and to who traces it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::schedstat;

/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(5);
/// Within it the last program is attached, and `exits` has looked for VMs and the clocks of their guests, before which it
/// counts nothing: about half a second of an emulated CPU where nothing is optimized.
const ATTACHING: Duration = Duration::from_secs(2);
/// How long anything may take before it counts as hung.
const BACKSTOP: Duration = Duration::from_secs(120);

/// Sends a process a signal.
///
/// # Errors
/// If it is gone.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let process = Pid::from_raw(pid.cast_signed()).context("no process")?;
    Ok(kill_process(process, signal)?)
}

/// Stops a process; over when none of its threads is on a CPU any more.
///
/// # Errors
/// If it is gone, or does not stop.
pub fn stop(pid: u32) -> Result<()> {
    signal(pid, Signal::STOP)?;
    wait_for("every thread to stop", || {
        let mut threads = schedstat::threads(pid)?.into_iter();
        Ok(threads.all(|(tid, _)| schedstat::stands(pid, tid)))
    })
}

/// Whether a process has BPF programs, and all of them are attached: but for one that walks over files, which is
/// attached for each walk.
pub fn traces(pid: u32) -> bool {
    match attached(pid) {
        // One that has nothing but its walk is still to load what traces.
        (0 | 1, _) => false,
        (programs, links) if links == programs => true,
        // It may be the last one of the others that is missing.
        (programs, links) if links > 0 && links + 1 == programs => {
            std::thread::sleep(ATTACHING);
            attached(pid) == (programs, links)
        }
        _ => false,
    }
}

/// A process's BPF programs, and how many of them are attached.
fn attached(pid: u32) -> (usize, usize) {
    // It may end while it is looked at.
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let targets: Vec<_> = targets
        .filter_map(|target| target.into_os_string().into_string().ok())
        .collect();
    let of_kind = |kind| targets.iter().filter(|it| it.contains(kind)).count();
    (of_kind("bpf-prog"), of_kind("bpf_link"))
}

/// Waits until this is so.
///
/// # Errors
/// If it is not within two minutes.
pub fn wait_for(what: &str, mut it: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + BACKSTOP;
    while !it()? {
        ensure!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(LOOK);
    }
    Ok(())
}
