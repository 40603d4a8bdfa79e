//! How the program gives up its rights (docs/security.md).

use anyhow::Result;
use vmnoise_rights::Work;

use crate::say;

/// Keeps only the rights for `works`, as [`vmnoise_rights::keep`] does. Prints a line on stderr if
/// this kernel cannot limit system calls.
///
/// # Errors
/// If the kernel refuses.
pub fn keep(works: &[Work]) -> Result<()> {
    if let Some(unlimited) = vmnoise_rights::keep(works)? {
        say::say(unlimited);
    }
    Ok(())
}
