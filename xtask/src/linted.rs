//! Runs cargo with lints and a check of the documentation during compilation. The gate compiles all
//! crates anyway. `cargo clippy` and `cargo doc` would each check all dependencies once more.

use std::process::Command;

use crate::cargo;

/// Value of `CLIPPY_ARGS` that has the same effect as `cargo clippy -- -D warnings`. The format
/// comes from src/main.rs of clippy.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Compiles a crate, and fails if clippy has a warning or if a link of its documentation has no
/// target.
const COMPILER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/lint-and-document");

/// Returns a cargo command that compiles the workspace's crates with [`COMPILER`]. A plain `cargo
/// build` does not reuse the compiled files.
pub fn command() -> Command {
    let mut command = Command::new(cargo());
    command
        .env("RUSTC_WORKSPACE_WRAPPER", COMPILER)
        .env("CLIPPY_ARGS", DENY_WARNINGS);
    command
}
