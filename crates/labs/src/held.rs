//! The first thread of a process alone is held, as by a debugger: all others run.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::{ptrace, wait::waitpid};
use nix::unistd::Pid;

/// Nobody drains a run for so long, and its pollers poll on: less than their lease of 5 s, which
/// was renewed up to a second before. The other programs go on, too.
pub const NOBODY_DRAINS: Duration = Duration::from_millis(3_500);

/// How often it is looked whether it was held for long enough.
const LOOK: Duration = Duration::from_millis(20);

/// Holds the first thread of this child until that is enough, and for no longer than this.
///
/// # Errors
/// If it is gone, or may not be held.
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
