//! Holds the first thread of a process, as a debugger does. The other threads continue.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::{ptrace, wait::waitpid};
use nix::unistd::Pid;

/// Time for which a test holds the thread that drains a run's buffers. The pollers and the BPF
/// programs continue meanwhile. The pollers' lease lasts 5 s, and was renewed up to 1 s before, so
/// this time must be shorter than 4 s.
pub const NOBODY_DRAINS: Duration = Duration::from_millis(3_500);

/// Time between two checks of whether the hold may end.
const LOOK: Duration = Duration::from_millis(20);

/// Holds the first thread of this child process until `is_enough` returns true, at most for `most`.
///
/// # Errors
/// If the child has ended, or this process may not hold its thread.
pub fn hold_first_thread(pid: u32, most: Duration, is_enough: impl Fn() -> bool) -> Result<()> {
    let first = Pid::from_raw(pid.cast_signed());
    ptrace::seize(first, ptrace::Options::empty()).context("seizing vmnoise's first thread")?;
    ptrace::interrupt(first).context("holding vmnoise's first thread")?;
    waitpid(first, None).context("waiting until vmnoise is held")?;
    let begin = Instant::now();
    while begin.elapsed() < most && !is_enough() {
        sleep(LOOK);
    }
    ptrace::detach(first, None).context("letting vmnoise go on")
}
