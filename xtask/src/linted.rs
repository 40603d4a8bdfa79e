//! Cargo that lints while it compiles. The gate compiles everything anyway; `cargo clippy` would check
//! all dependencies once more.

use std::process::Command;

use crate::cargo;

/// As `-- -D warnings` of `cargo clippy`, which hands it on like this (src/main.rs of clippy).
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// The crates of the workspace go through clippy, which is a compiler too. A plain
/// `cargo build` does not use what was compiled this way.
pub fn command() -> Command {
    let mut command = Command::new(cargo());
    command
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", DENY_WARNINGS);
    command
}
