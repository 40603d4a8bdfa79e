//! Checks the outputs of a guest, and adds them to errors.

use anyhow::{Context, Error, Result, anyhow};
use vmnoise_testbed::bed::CommandOutput;

/// Number of console lines that are kept for a failed cell. They are enough for a kernel panic with
/// its stack trace.
const LAST_LINES: usize = 60;

/// Adds the end of the console to an error.
pub(super) fn with_console(error: &Error, console: &str) -> Error {
    let lines: Vec<&str> = console.lines().collect();
    let end = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    anyhow!("{error:#}; its console ends: {end}")
}

/// Checks that all commands of a guest succeeded.
///
/// # Errors
/// If a command failed.
pub(super) fn ensure_well(outputs: &[CommandOutput]) -> Result<()> {
    for output in outputs {
        output.text().context("in the guest")?;
    }
    Ok(())
}
