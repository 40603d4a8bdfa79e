//! Runs the benchmarks one after the other. They print figures and check nothing.

use anyhow::Result;

use crate::{cargo, run};

/// Runs all benchmarks of the workspace.
pub fn all() -> Result<()> {
    run(&cargo(), &["bench", "--workspace"])
}
