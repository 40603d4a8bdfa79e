//! Stops, signals and watches a VMM, and the process that traces it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::schedstat;

/// Time between two checks in a wait.
const LOOK: Duration = Duration::from_millis(5);
/// Time until all programs are attached and `exits` has found VMs and their guests' clocks; before
/// that it counts nothing. On an unoptimized emulated CPU that takes about half a second.
const ATTACHING: Duration = Duration::from_secs(2);
/// How long any wait may take before it counts as hung.
const BACKSTOP: Duration = Duration::from_secs(120);

/// Sends a signal to a process.
///
/// # Errors
/// If the process has ended.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let process = Pid::from_raw(pid.cast_signed()).context("no process")?;
    Ok(kill_process(process, signal)?)
}

/// Stops a process, and returns when none of its threads is on a CPU.
///
/// # Errors
/// If the process has ended, or does not stop.
pub fn stop(pid: u32) -> Result<()> {
    signal(pid, Signal::STOP)?;
    wait_for("every thread to stop", || {
        let mut threads = schedstat::threads(pid)?.into_iter();
        Ok(threads.all(|(tid, _)| schedstat::stands(pid, tid)))
    })
}

/// Returns whether a process has BPF programs, and all of them are attached. One program may be
/// unattached: the one that walks over files is attached only for each walk.
pub fn traces(pid: u32) -> bool {
    match attached(pid) {
        // A process with only this walk has not loaded its tracing programs yet.
        (0 | 1, _) => false,
        (programs, links) if links == programs => true,
        // The missing one may be another program that is attached last.
        (programs, links) if links > 0 && links + 1 == programs => {
            std::thread::sleep(ATTACHING);
            attached(pid) == (programs, links)
        }
        _ => false,
    }
}

/// Returns the number of a process's BPF programs, and of its attached ones.
fn attached(pid: u32) -> (usize, usize) {
    // The process may end during the read.
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

/// Waits until `it` is true; `what` names it in the error.
///
/// # Errors
/// If it is not true within two minutes.
pub fn wait_for(what: &str, mut it: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + BACKSTOP;
    while !it()? {
        ensure!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(LOOK);
    }
    Ok(())
}
