//! Tests of `vmnoise export --hlog` with HdrHistogram's tools.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::join_pair::{Flaws, write_guest, write_host, write_tasks};

/// Returns recordings of a guest's gaps and tasks, and of its host's exits.
fn recordings() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_guest(&folder.path().join("guest.vmn"));
    write_tasks(&folder.path().join("tasks.vmn"));
    write_host(&folder.path().join("host.vmn"), Flaws::default());
    folder
}

fn vmnoise(folder: &TempDir, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path());
    command.args(words.split_whitespace()).output().unwrap()
}

fn exported(folder: &TempDir, words: &str) -> String {
    let output = vmnoise(folder, &format!("export {words} --hlog out.hlog"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    std::fs::read_to_string(folder.path().join("out.hlog")).unwrap()
}

#[test]
fn a_log_says_of_what_it_is_and_what_is_missing() {
    let folder = recordings();
    let log = exported(&folder, "tasks.vmn");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[0], "#[Histogram log format version 1.3]");
    assert!(lines[1].contains("latencies until user space") && lines[1].contains("nanoseconds"));
    assert!(lines[2].starts_with("#[StartTime: "), "{}", lines[2]);
    assert_eq!(lines.last(), Some(&"#[Lost events: 0]"));
    // Every second has a line with all samples: here one for the second, and one for the rest of
    // the run.
    let of_all = lines
        .iter()
        .filter(|line| line.starts_with(|it: char| it.is_ascii_digit()));
    assert!(of_all.count() >= 1);
    assert!(
        lines.iter().any(|line| line.starts_with("Tag=irq,")),
        "{log}"
    );
}

#[test]
fn recordings_that_are_not_joined_do_not_go_to_one_file() {
    let folder = recordings();
    for flag in ["--hlog", "--folded"] {
        let output = vmnoise(&folder, &format!("export guest.vmn tasks.vmn {flag} out"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(129), "{said}");
        assert!(said.contains(flag) && said.lines().count() == 1, "{said}");
        assert!(!folder.path().join("out").exists());
    }
}

/// Checks with another program.
mod engine {
    use super::*;

    fn read(folder: &TempDir) -> Value {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let read = Command::new("python3")
            .arg(tests.join("export_lengths/read.py"))
            .arg(folder.path().join("out.hlog"))
            .env("PYTHONPATH", tests.join("../../../target/python"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success(), "{said}");
        serde_json::from_slice(&read.stdout).unwrap()
    }

    fn explained(folder: &TempDir, file: &str) -> Value {
        let output = vmnoise(folder, &format!("explain {file} --format json"));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Compares a percentile. The upper edge of a three-digit bucket may be above its longest
    /// length, which we know to the nanosecond.
    fn assert_same(theirs: &Value, ours: u64, max_ns: u64) {
        let theirs = theirs.as_u64().unwrap();
        assert!(theirs.min(max_ns) == ours, "{theirs} {ours} {max_ns}");
        assert!(theirs <= ours + ours / 1_000 + 1, "{theirs} {ours}");
    }

    #[test]
    fn hdr_histogram_reads_the_gaps() {
        let folder = recordings();
        exported(&folder, "guest.vmn");
        let (read, ours) = (read(&folder), explained(&folder, "guest.vmn"));
        let cpu = &ours["cpus"][0];
        let all = &read[""];
        assert_eq!(all["count"], cpu["gaps"]);
        let max_ns = cpu["max_gap_ns"].as_u64().unwrap();
        for (place, name) in ["p50", "p90", "p99", "p999", "max"].into_iter().enumerate() {
            let ours = cpu["percentiles_ns"][name].as_u64().unwrap();
            assert_same(&all["percentiles"][place], ours, max_ns);
        }
        // The lines follow each other, from the start of the run.
        let started: f64 = 1_767_225_600.0; // 2026-01-01T00:00:00Z
        let mut end = started;
        for line in all["lines"].as_array().unwrap() {
            assert!(
                (line[0].as_f64().unwrap() - end).abs() < 0.002,
                "{line} {end}"
            );
            end = line[1].as_f64().unwrap();
        }
        // The guest's run lasts a second.
        assert!((end - started - 1.0).abs() < 0.05, "{end}");
    }

    #[test]
    fn hdr_histogram_reads_the_latencies_until_each_context() {
        let folder = recordings();
        exported(&folder, "tasks.vmn");
        let (read, ours) = (read(&folder), explained(&folder, "tasks.vmn"));
        for (tag, context) in [("", "user"), ("irq", "irq"), ("thread", "thread")] {
            let ours = &ours["cpus"][0][context];
            assert_eq!(read[tag]["count"], ours["count"]);
            let max_ns = ours["max_ns"].as_u64().unwrap();
            for (place, name) in [(0, "p50_ns"), (2, "p99_ns"), (3, "p999_ns"), (4, "max_ns")] {
                let ours = ours[name].as_u64().unwrap();
                assert_same(&read[tag]["percentiles"][place], ours, max_ns);
            }
        }
    }

    #[test]
    fn hdr_histogram_reads_the_exits_by_reason() {
        let folder = recordings();
        exported(&folder, "host.vmn");
        let read = read(&folder);
        // 400 exits; every tenth is 62.486 us long, the others 16 us.
        for tag in ["", "interrupt"] {
            assert_eq!(read[tag]["count"], 400);
            // Upper edge of its bucket, which is eight wide.
            assert_eq!(read[tag]["percentiles"][0], 16_007);
            assert_same(&read[tag]["percentiles"][4], 62_486, 62_486);
        }
    }

    #[test]
    fn a_guest_beside_its_host_has_the_same_gaps() {
        let folder = recordings();
        exported(&folder, "guest.vmn");
        let alone = read(&folder);
        exported(&folder, "guest.vmn host.vmn");
        let beside = read(&folder);
        assert_eq!(alone[""]["count"], beside[""]["count"]);
        assert_eq!(alone[""]["percentiles"], beside[""]["percentiles"]);
    }
}
