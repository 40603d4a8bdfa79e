//! Stops and signals a VMM, and finds out whether a process traces it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::schedstat;

/// Time between two checks in a wait.
const LOOK: Duration = Duration::from_millis(5);
/// Time after which all programs are attached, and `vmnoise exits` has found VMs and their guests'
/// clocks. Before that, `vmnoise exits` counts nothing. On an unoptimized emulated CPU this takes
/// about 0.5 s.
const ATTACHING: Duration = Duration::from_secs(2);
/// Maximum time of any wait before it counts as hung.
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
/// unattached: the program that walks over files is attached only during each walk.
pub fn traces(pid: u32) -> bool {
    match attached(pid) {
        // A process that has only the program for walks has not loaded its tracing programs yet.
        (0 | 1, _) => false,
        (programs, links) if links == programs => true,
        // The unattached program may not be the one for walks, but one that is attached last.
        (programs, links) if links > 0 && links + 1 == programs => {
            std::thread::sleep(ATTACHING);
            attached(pid) == (programs, links)
        }
        _ => false,
    }
}

/// Returns the number of BPF programs of a process, and the number of its BPF links. Each link
/// attaches a program.
fn attached(pid: u32) -> (usize, usize) {
    // The process may end while this function reads.
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

/// Waits until `it` returns true. `what` describes the condition in the error.
///
/// # Errors
/// If `it` does not return true within two minutes.
pub fn wait_for(what: &str, mut it: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + BACKSTOP;
    while !it()? {
        ensure!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(LOOK);
    }
    Ok(())
}
