//! pyarrow, by which the summary is computed a second time, independently.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::run;

/// Where pyarrow is kept between runs; tests put it on PYTHONPATH.
pub const PYTHON_PACKAGES: &str = "target/python";

/// Installs pyarrow under `target/` unless it is there.
pub fn install_pyarrow() -> Result<()> {
    let present = Command::new("python3")
        .args(["-c", "import pyarrow"])
        .env("PYTHONPATH", PYTHON_PACKAGES)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if present {
        return Ok(());
    }
    run(
        "python3",
        &[
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
            "--target",
            PYTHON_PACKAGES,
            "pyarrow",
        ],
    )
}
