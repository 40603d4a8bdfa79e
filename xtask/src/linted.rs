//! Runs cargo with lints during compilation. The gate compiles all crates anyway. A separate `cargo
//! clippy` would check all dependencies a second time.

use std::process::Command;

use crate::cargo;

/// Value of `CLIPPY_ARGS` that has the same effect as `cargo clippy -- -D warnings`. The format
/// comes from src/main.rs of clippy.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Returns a cargo command that compiles the workspace's crates with clippy, which is also a
/// compiler. A plain `cargo build` does not reuse the compiled files.
pub fn command() -> Command {
    let mut command = Command::new(cargo());
    command
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", DENY_WARNINGS);
    command
}
