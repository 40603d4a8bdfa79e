//! Test of the exact output of `vmnoise explain` for a recorded `vmnoise timerlat`.
//! `tests/reported` has the expected files; `TRYCMD=overwrite` renews them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::timer_recording;

#[track_caller]
fn assert_reported(options: &[&str], file: &str) {
    let folder = tempfile::tempdir().unwrap();
    timer_recording::write(&folder.path().join("timer.vmn"));
    let output = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
        .current_dir(folder.path())
        .args(["explain", "timer.vmn"])
        .args(options)
        .output()
        .unwrap();
    assert_eq!(str::from_utf8(&output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
    let reported = str::from_utf8(&output.stdout).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/reported")
        .join(file);
    if std::env::var("TRYCMD").is_ok_and(|word| word == "overwrite") {
        fs::write(&path, reported).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    assert!(reported == expected, "not as in {file}, but:\n{reported}");
}

#[test]
fn a_stop_is_analyzed_above_the_table() {
    assert_reported(&[], "timerlat.txt");
}

#[test]
fn the_document_has_the_same() {
    assert_reported(&["--format", "json"], "timerlat.json");
}

#[test]
fn the_trace_has_a_line_for_each_context() {
    assert_reported(&["--trace"], "timerlat.trace.txt");
}
