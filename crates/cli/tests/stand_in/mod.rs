//! Links named `cyclictest` and `rtla`: what scripts ask of them, and how they read the answer.

mod cyclictest;
mod readers;
mod rteval;
mod stops;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with such a link in it.
fn linked(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_vmnoise"), folder.path().join(name)).unwrap();
    folder
}

/// Runs a program in that folder, for a minute at most.
fn run(folder: &TempDir, program: PathBuf, words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "INT", "60"]).arg(program).args(words);
    command.current_dir(folder.path()).output().unwrap()
}
