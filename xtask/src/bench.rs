//! Runs the benches one after the other. They print figures and assert nothing.

use anyhow::Result;

use crate::{cargo, run};

/// Runs every bench of the workspace.
pub fn all() -> Result<()> {
    run(&cargo(), &["bench", "--workspace"])
}
