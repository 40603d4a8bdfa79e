//! `lab-tied PROGRAM [ARGUMENT...]` becomes PROGRAM. The kernel kills the program when the thread
//! that started it ends.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::{Signal, set_parent_process_death_signal};

pub fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let program = words
        .next()
        .context("usage: lab-tied PROGRAM [ARGUMENT...]")?;
    // The setting survives `exec` (prctl(2), PR_SET_PDEATHSIG).
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let error = Command::new(&program).args(words).exec();
    Err(error).with_context(|| format!("starting {}", program.display()))
}
