//! Outputs of a guest.

use anyhow::{Context, Error, Result, anyhow};
use vmnoise_labs::bed::CommandOutput;

/// Last lines of a console that are kept for a failed cell: enough for a panic with its stack.
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
/// If one failed.
pub(super) fn ensure_well(outputs: &[CommandOutput]) -> Result<()> {
    for output in outputs {
        output.text().context("in the guest")?;
    }
    Ok(())
}
