//! What a guest has said, and what follows from that.

use anyhow::{Context, Error, Result, anyhow};
use vmnoise_labs::bed::CommandOutput;

/// Lines of a console that tell why a cell failed: enough for a panic with its stack.
const LAST_LINES: usize = 60;

/// What went wrong, with the end of the console.
pub(super) fn with_console(error: &Error, console: &str) -> Error {
    let lines: Vec<&str> = console.lines().collect();
    let end = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    anyhow!("{error:#}; its console ends: {end}")
}

/// That all commands of a guest ended well.
///
/// # Errors
/// If one did not.
pub(super) fn ensure_well(outputs: &[CommandOutput]) -> Result<()> {
    for output in outputs {
        output.text().context("in the guest")?;
    }
    Ok(())
}
