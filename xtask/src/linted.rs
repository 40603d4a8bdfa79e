//! Runs cargo with lints during compilation. The gate compiles everything anyway; `cargo clippy`
//! would check all dependencies again.

use std::process::Command;

use crate::cargo;

/// Same effect as `-- -D warnings` of `cargo clippy`, which passes it on like this (src/main.rs of
/// clippy).
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Returns a cargo command that compiles the workspace's crates with clippy, which is a compiler
/// too. A plain `cargo build` does not use its output.
pub fn command() -> Command {
    let mut command = Command::new(cargo());
    command
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", DENY_WARNINGS);
    command
}
