//! `--measure`: records the CPUs with `vmnoise osnoise`. The run is a separate process, because it
//! gives up rights that vmnoise may need to read settings.

use std::env::current_exe;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use signal_hook::consts::SIGINT;
use tempfile::{NamedTempFile, TempPath};
use vmnoise_console::status::MachineCannot;

/// Measures these CPUs and returns the recording, which is deleted on drop. The run prints its
/// messages on stderr.
///
/// # Errors
/// If nothing was measured.
pub fn measure(cpus: &str, duration_ns: u64) -> Result<TempPath> {
    let file = NamedTempFile::new().context("making a file for the recording")?;
    // Ctrl-C ends only the run. vmnoise then audits the recording so far.
    signal_hook::flag::register(SIGINT, Arc::default()).context("catching Ctrl-C")?;
    let here = current_exe().context("finding where this program is")?;
    let mut command = Command::new(here);
    command.args(["osnoise", "--quiet", "--cpus", cpus]);
    command.args(["--duration", &format!("{duration_ns}ns"), "--output"]);
    command.arg(file.path()).stdout(Stdio::null());
    let status = command.status().context("starting vmnoise osnoise")?;
    match status.code() {
        Some(0) => Ok(file.into_temp_path()),
        Some(3) => Err(MachineCannot("nothing was measured".into()).into()),
        _ => bail!("nothing was measured: vmnoise osnoise ended with {status}"),
    }
}
