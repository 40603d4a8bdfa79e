//! The commands that read recordings, from the command line to the last byte of their results. The
//! last byte of the input chooses the options.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::recordings::{pair, recording};

/// Folder in memory, if the machine has one.
const MEMORY: &str = "/dev/shm";

pub(super) fn explain(bytes: &[u8]) {
    let ways: [&[&str]; 5] = [
        &["explain", "RUN"],
        &["explain", "RUN", "--format", "json"],
        &["explain", "RUN", "--trace"],
        &["compare", "RUN", "RUN"],
        &["compare", "RUN", "RUN", "--format", "json"],
    ];
    run(chosen(&ways, bytes), &[("RUN", recording(bytes))]);
}

pub(super) fn report(bytes: &[u8]) {
    let ways: [&[&str]; 4] = [
        &["report", "RUN", "-o", "PAGE"],
        &["report", "RUN", "-o", "PAGE"],
        &["report", "RUN", "-o", "PAGE"],
        &["compare", "RUN", "RUN", "--format", "html"],
    ];
    run(chosen(&ways, bytes), &[("RUN", recording(bytes))]);
}

pub(super) fn export(bytes: &[u8]) {
    let ways: [&[&str]; 5] = [
        &["export", "RUN", "--perfetto", "TIMELINE"],
        &["export", "RUN", "--csv", "TABLES", "--host", "h"],
        &[
            "export",
            "RUN",
            "--spreadsheet-csv",
            "TABLES",
            "--host",
            "h",
        ],
        &["export", "RUN", "--parquet", "TABLES", "--host", "h"],
        &["export", "RUN", "--rt-tests", "JSON"],
    ];
    run(chosen(&ways, bytes), &[("RUN", recording(bytes))]);
}

pub(super) fn judge(bytes: &[u8]) {
    let ways: [&[&str]; 10] = [
        &["audit", "RUN"],
        &["audit", "RUN", "--format", "json"],
        &["audit", "RUN", "--format", "junit"],
        &["audit", "RUN", "--format", "markdown"],
        &["audit", "RUN", "--script", "SCRIPTS"],
        &["check", "RUN", "--max", "1us", "--p99.9", "1ms"],
        &["schedule", "RUN"],
        &["check", "RUN", "--limit", "by a*=1%", "--format", "junit"],
        &["scale", "RUN", "--ranks", "1..4096", "--step", "10us"],
        &[
            "scale",
            "RUN",
            "--collective",
            "allreduce",
            "--format",
            "json",
        ],
    ];
    run(chosen(&ways, bytes), &[("RUN", recording(bytes))]);
}

pub(super) fn join(bytes: &[u8]) {
    let ways: [&[&str]; 8] = [
        &["explain", "GUEST", "HOST"],
        &["explain", "GUEST", "HOST", "--format", "json"],
        &["report", "GUEST", "HOST", "-o", "PAGE"],
        &["export", "GUEST", "HOST", "--perfetto", "TIMELINE"],
        &["export", "GUEST", "HOST", "--csv", "TABLES", "--host", "h"],
        &["audit", "GUEST", "HOST"],
        &["audit", "GUEST", "HOST", "--format", "json"],
        &["check", "GUEST", "HOST", "--max", "1us", "--p99.9", "1ms"],
    ];
    let [guest, host] = pair(bytes);
    run(chosen(&ways, bytes), &[("GUEST", guest), ("HOST", host)]);
}

fn chosen<'a>(ways: &[&'a [&'a str]], bytes: &[u8]) -> &'a [&'a str] {
    let byte = bytes.last().copied().unwrap_or_default();
    ways[usize::from(byte) % ways.len()]
}

/// Runs one command. Words in capitals are files in a folder that is removed afterwards.
fn run(command: &[&str], recordings: &[(&str, Vec<u8>)]) {
    let folder = match Path::new(MEMORY).is_dir() {
        true => tempfile::tempdir_in(MEMORY),
        false => tempfile::tempdir(),
    };
    let folder = folder.expect("a folder of our own");
    for (name, bytes) in recordings {
        fs::write(folder.path().join(name), bytes).expect("a file of our own");
    }
    let word = |word: &&str| match word.chars().all(char::is_uppercase) {
        true => folder.path().join(word).into_os_string(),
        false => OsString::from(word),
    };
    let line = ["vmnoise"].iter().chain(command).map(word);
    let status = vmnoise::run(line);
    // Verdicts have two more statuses. Other statuses would mean that a limit was reached, or that
    // the machine lacks something. A recording causes neither.
    let reported: &[u8] = match command.first() {
        Some(&"check") => &[0, 1, 2, 3, 129],
        _ => &[0, 1, 129],
    };
    assert!(
        reported.iter().any(|it| ExitCode::from(*it) == status),
        "{command:?} ended with {status:?}"
    );
}
