//! Checks that a recorder polls while tasks run.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::{processes, schedstat};

/// How long it may take to start; not an estimate of its usual time.
const BACKSTOP: Duration = Duration::from_secs(60);

/// Polling thread of `vmnoise osnoise` on a CPU.
#[derive(Debug)]
pub struct Poller {
    pid: u32,
    thread: String,
}

impl Poller {
    /// Waits until a process records into this file and its thread polls.
    ///
    /// # Errors
    /// If it does not start.
    pub fn at_work(cpu: u32, recording: &str) -> Result<Poller> {
        let thread = format!("vmnoise-spin{cpu}");
        let begun = Instant::now();
        let mut pid = None;
        loop {
            // Once known, only this process is checked: a search through all of /proc takes
            // milliseconds in a lab, which would be gaps.
            pid = pid.or_else(|| recorder(recording));
            // A process that ends during the check is not the one.
            let works = |pid: &u32| schedstat::has_worked(*pid, &thread).unwrap_or(false);
            if let Some(pid) = pid.filter(works) {
                return Ok(Poller { pid, thread });
            }
            let waits = begun.elapsed() < BACKSTOP;
            ensure!(waits, "{thread} of `vmnoise osnoise` does not poll");
            sleep(Duration::from_millis(20));
        }
    }

    /// Checks that the thread still polls: after its end nothing is recorded.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn still_is(&self) -> Result<()> {
        let threads = schedstat::threads(self.pid).context("`vmnoise osnoise` has ended")?;
        let is_there = threads.iter().any(|(_, comm)| *comm == self.thread);
        ensure!(is_there, "{} has ended before the tasks", self.thread);
        Ok(())
    }
}

/// Returns the process that has this file in its arguments (proc_pid_cmdline(5)).
fn recorder(recording: &str) -> Option<u32> {
    let is_told = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        words.any(|word| word == b"-o") && words.next() == Some(recording.as_bytes())
    };
    processes::all().into_iter().map(|it| it.pid).find(is_told)
}
