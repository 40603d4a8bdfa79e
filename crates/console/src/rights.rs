//! Gives up the rights of the process that a command does not need (docs/security.md).

use anyhow::Result;
use vmnoise_rights::AttachedWork;

use crate::say;

/// Keeps only the rights for `works`, as [`vmnoise_rights::keep`] does. Prints a line on stderr if
/// this kernel cannot limit system calls.
///
/// # Errors
/// If the kernel refuses.
pub fn keep(works: &[AttachedWork]) -> Result<()> {
    if let Some(unlimited) = vmnoise_rights::keep(works)? {
        say::say(unlimited);
    }
    Ok(())
}
