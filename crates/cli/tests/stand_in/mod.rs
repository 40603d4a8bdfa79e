//! Tests of links named `cyclictest` and `rtla`: options that scripts use, and parsers for the
//! output.

mod cyclictest;
mod readers;
mod rteval;
mod stops;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Returns a folder with a link of this name.
fn linked(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_vmnoise"), folder.path().join(name)).unwrap();
    folder
}

/// Runs a program in that folder, for at most a minute.
fn run(folder: &TempDir, program: PathBuf, words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "INT", "60"]).arg(program).args(words);
    command.current_dir(folder.path()).output().unwrap()
}

#[test]
fn hwnoise_is_answered_in_a_line() {
    for more in [&["-c", "0", "-T", "1"][..], &["--help"]] {
        let folder = linked("rtla");
        let words = [&["hwnoise"], more].concat();
        let output = run(&folder, "./rtla".into(), &words);
        let said = str::from_utf8(&output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(129), "{said}");
        assert!(
            said.contains("interrupts off") && said.lines().count() == 1,
            "{said}"
        );
    }
}
