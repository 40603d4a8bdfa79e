//! The benches, one after the other. They print; nothing is asserted.

use anyhow::Result;

use crate::{cargo, run};

/// Runs every bench of the workspace.
pub fn all() -> Result<()> {
    run(&cargo(), &["bench", "--workspace"])
}
