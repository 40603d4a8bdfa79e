//! Holds the first thread of a process, as a debugger does; its other threads run on.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::{ptrace, wait::waitpid};
use nix::unistd::Pid;

/// Time for which no one drains a run, while its pollers and its other programs continue. It is
/// below the pollers' lease of 5 s, which was renewed up to a second before.
pub const NOBODY_DRAINS: Duration = Duration::from_millis(3_500);

/// Time between two checks of the hold's end.
const LOOK: Duration = Duration::from_millis(20);

/// Holds the first thread of this child until `is_enough`, and at most for `most`.
///
/// # Errors
/// If the child has ended, or may not be held.
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
