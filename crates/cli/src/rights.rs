//! Rights as the program gives them up (docs/security.md).

use anyhow::Result;
use vmnoise_rights::Work;

use crate::say;

/// As [`vmnoise_rights::keep`], and says so where this kernel cannot limit system calls.
///
/// # Errors
/// If the kernel refuses.
pub fn keep(works: &[Work]) -> Result<()> {
    if let Some(unlimited) = vmnoise_rights::keep(works)? {
        say::say(unlimited);
    }
    Ok(())
}
