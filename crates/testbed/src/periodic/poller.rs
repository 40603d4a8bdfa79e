//! Checks that a recorder polls a CPU while tasks run there.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::{processes, schedstat};

/// Maximum time until the recorder polls. It usually takes much less.
const BACKSTOP: Duration = Duration::from_secs(60);

/// The polling thread of a `vmnoise osnoise` process on one CPU.
#[derive(Debug)]
pub struct Poller {
    pid: u32,
    thread: String,
}

impl Poller {
    /// Waits until a process records into this file, and its thread on this CPU polls.
    ///
    /// # Errors
    /// If no such thread polls within a minute.
    pub fn at_work(cpu: u32, recording: &str) -> Result<Poller> {
        let thread = format!("vmnoise-spin{cpu}");
        let begun = Instant::now();
        let mut pid = None;
        loop {
            // After the process is found, only this process is checked. A search through all of
            // /proc takes milliseconds in a lab, and would cause gaps.
            pid = pid.or_else(|| recorder(recording));
            // A process that ends during the check is not the recorder.
            let works = |pid: &u32| schedstat::has_worked(*pid, &thread).unwrap_or(false);
            if let Some(pid) = pid.filter(works) {
                return Ok(Poller { pid, thread });
            }
            let waits = begun.elapsed() < BACKSTOP;
            ensure!(waits, "{thread} of `vmnoise osnoise` does not poll");
            sleep(Duration::from_millis(20));
        }
    }

    /// Checks that the thread still exists. After its end, nothing is recorded.
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

/// Returns the process whose arguments contain `-o` and this file (proc_pid_cmdline(5)).
fn recorder(recording: &str) -> Option<u32> {
    let is_told = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        words.any(|word| word == b"-o") && words.next() == Some(recording.as_bytes())
    };
    processes::all().into_iter().map(|it| it.pid).find(is_told)
}
