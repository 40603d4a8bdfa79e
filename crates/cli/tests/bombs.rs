//! Recordings from strangers: whatever a file holds, each command stays within so much memory
//! (docs/reliability.md). `cargo test -p vmnoise --test bombs -- --nocapture` prints what it measures.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

#[allow(dead_code)] // Only its facts are needed.
mod join_pair;
#[path = "bombs/made.rs"]
mod made;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use made::{BOMBS, Bomb, ORDINARY};
use nix::sys::resource::{UsageWho, getrusage};

/// A megabyte, and less of it where nothing is optimized.
const SMALL_BYTES: u64 = if cfg!(debug_assertions) {
    250_000
} else {
    1_000_000
};
/// Of a file of 1 MB.
const SMALL_KIB: u64 = 256 << 10;

/// What is done with a recording, in its folder.
const COMMANDS: &[&str] = &[
    "explain it.vmn",
    "explain it.vmn --format json",
    "explain it.vmn --trace",
    "report it.vmn -o it.html",
    "compare it.vmn it.vmn",
    "export it.vmn --csv tables",
    "export it.vmn --perfetto it.pftrace",
];

fn binary() -> std::ffi::OsString {
    std::env::var_os("VMNOISE_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_vmnoise").into())
}

/// Runs it with no more memory than this, its address space counted.
fn run(folder: &Path, line: &str, most_kib: u64) -> (Output, Duration) {
    let begun = Instant::now();
    let output = Command::new("sh")
        .current_dir(folder)
        .arg("-c")
        .arg(format!("ulimit -v {most_kib}; exec \"$0\" {line}"))
        .arg(binary())
        .output()
        .unwrap();
    (output, begun.elapsed())
}

/// What the largest of all commands so far had in memory at once.
fn largest_kib() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()
}

/// Whether it came to an end of its own making: a result, or a fault that it names.
fn has_ended_in_order(output: &Output) -> bool {
    let told = String::from_utf8_lossy(&output.stderr);
    let is_clean = !told.contains("panicked") && !told.contains("memory allocation");
    // Without a code a signal ended it.
    is_clean && output.status.code().is_some()
}

fn hold(bomb: &Bomb, bytes: u64, most_kib: u64) {
    let folder = tempfile::tempdir().unwrap();
    bomb.write(&folder.path().join("it.vmn"), bytes);
    let size = std::fs::metadata(folder.path().join("it.vmn"))
        .unwrap()
        .len();
    for line in COMMANDS {
        let (output, elapsed) = run(folder.path(), line, most_kib);
        eprintln!(
            "{:>6.2} s {:>4} MiB so far {:>6.2} MB in {:>7.2} MB out: {}: {line}: {}",
            elapsed.as_secs_f64(),
            largest_kib() >> 10,
            size as f64 / 1e6,
            output.stdout.len() as f64 / 1e6,
            bomb.name,
            String::from_utf8_lossy(&output.stderr)
                .lines()
                .next()
                .unwrap_or_default(),
        );
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(has_ended_in_order(&output), "{}: {line}: {told}", bomb.name);
    }
}

#[test]
fn a_megabyte_from_a_stranger_stays_small() {
    hold(&ORDINARY, SMALL_BYTES, SMALL_KIB);
    for bomb in BOMBS {
        hold(bomb, SMALL_BYTES, SMALL_KIB);
    }
}
