//! Tests of `vmnoise compare --before … --after …`: a change that takes time is found, chance is
//! not, and too few runs are reported.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use vmnoise_events::*;
use vmnoise_recording::Writer;

const TICK_NS: u64 = 20_000_000;

/// Writes half a second of a polling thread in a guest, with a gap in each tick; the steal clock
/// advances by `steal_ns` in each gap.
fn write(path: &Path, seed: u64, started_at: &str, steal_ns: u64) {
    let mut facts = fixtures::facts(MeasuringCommand::Osnoise);
    facts.started_at = started_at.into();
    facts.host.hypervisor = Some("KVM".into());
    facts.witnesses.kvm_run = false;
    facts.witnesses.kvm_exit = false;
    let mut writer = Writer::create(path, &facts).unwrap();
    let mut push = |event: Event| writer.push(&event).unwrap();
    let anchor = |at_ns| {
        Event::Anchor(Anchor {
            before_tsc: at_ns,
            mono_ns: at_ns,
            after_tsc: at_ns,
        })
    };
    push(anchor(0));
    push(Event::Watermark(0));
    for tick in 1..=25 {
        let mixed = (seed << 32 ^ tick).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
        let (now, dur_ns) = (tick * TICK_NS, 5_000 + mixed % 9_973 + steal_ns);
        push(Event::Gap(Gap {
            cpu: 1,
            start_tsc: now - 1_000_000 - dur_ns,
            end_tsc: now - 1_000_000,
            steal_ns,
            reloads: 0,
            light_exits: 0,
            heavy_exits: 0,
            interference: None,
            run_delay_ns: 0,
        }));
        push(anchor(now));
        push(Event::Tally(CpuTally {
            cpu: 1,
            last_tsc: now,
            blind_tsc: Some(0),
            ..CpuTally::default()
        }));
        push(Event::Watermark(now));
    }
    push(Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns: 25 * TICK_NS,
    }));
    writer.finish().unwrap();
}

/// Returns alternating runs before a change (`b0.vmn`, …) and after it (`a0.vmn`, …); after it,
/// each gap has 20 us of steal.
fn recordings(runs: u64, steal_ns: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for nth in 0..runs {
        for (at, (group, steal_ns)) in [("b", 0), ("a", steal_ns)].into_iter().enumerate() {
            let started_at = format!("2026-01-01T00:{:02}:00Z", 2 * nth + at as u64);
            let path = folder.path().join(format!("{group}{nth}.vmn"));
            write(&path, 100 * nth + at as u64, &started_at, steal_ns);
        }
    }
    folder
}

fn names(group: &str, runs: std::ops::Range<u64>) -> String {
    let names: Vec<String> = runs.map(|nth| format!("{group}{nth}.vmn")).collect();
    names.join(" ")
}

fn compare(folder: &TempDir, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path()).arg("compare");
    command.args(words.split_whitespace()).output().unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn figure<'a>(json: &'a Value, name: &str) -> &'a Value {
    let mut figures = json["groups"]["figures"].as_array().unwrap().iter();
    figures.find(|it| it["figure"] == name).unwrap()
}

#[test]
fn a_change_that_takes_time_is_found_with_its_size() {
    let folder = recordings(8, 20_000);
    let words = format!("--before {} --after {}", names("b", 0..8), names("a", 0..8));
    let found = json(&compare(&folder, &format!("{words} --format json")));
    let groups = &found["groups"];
    assert_eq!(groups["before"].as_array().unwrap().len(), 8);
    assert_eq!(groups["after"][0], 8);
    assert_eq!(
        (&groups["too_few_runs"], &groups["one_after_the_other"]),
        (&false.into(), &false.into())
    );
    for name in ["noise", "steal", "p50", "max"] {
        assert_eq!(figure(&found, name)["verdict"], "different", "{groups}");
    }
    // 50 gaps a second with 20 us in each.
    let steal = figure(&found, "steal");
    assert!(
        (steal["shift"].as_f64().unwrap() - 0.1).abs() < 0.001,
        "{steal}"
    );
    // Each run has the same number of gaps, so there is nothing to test.
    assert_eq!(figure(&found, "gaps")["verdict"], "untested");
    assert_ne!(figure(&found, "hv_or_hw")["verdict"], "different");
    assert!(found["comparisons"].as_array().unwrap().is_empty());
    let page = compare(&folder, &format!("{words} --format html"));
    assert!(String::from_utf8_lossy(&page.stdout).contains("Run by run"));
    let text = compare(&folder, &words);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(
        text.contains("before (8)") && text.contains("different"),
        "{text}"
    );
}

#[test]
fn a_change_of_nothing_is_not_found() {
    let folder = recordings(8, 0);
    let words = format!("--before {} --after {}", names("b", 0..8), names("a", 0..8));
    let found = json(&compare(&folder, &format!("{words} --format json")));
    for figure in found["groups"]["figures"].as_array().unwrap() {
        assert_ne!(figure["verdict"], "different", "{figure}");
    }
}

#[test]
fn three_against_three_are_told_to_be_too_few() {
    let folder = recordings(3, 20_000);
    let words = format!("--before {} --after {}", names("b", 0..3), names("a", 0..3));
    let found = json(&compare(&folder, &format!("{words} --format json")));
    assert_eq!(found["groups"]["too_few_runs"], true);
    assert!((found["groups"]["least_p"].as_f64().unwrap() - 0.1).abs() < 1e-12);
    assert_eq!(figure(&found, "steal")["verdict"], "too_few_runs");
    assert!(figure(&found, "steal")["interval"].is_null());
    let text = compare(&folder, &words);
    let text = String::from_utf8_lossy(&text.stdout);
    let tested = found["groups"]["tested"].as_u64().unwrap();
    let needed = found["groups"]["needed_runs"].as_u64().unwrap();
    let said = format!("for {tested} tested figures it must be");
    assert!(
        text.contains("the least p that they can have is 0.1000"),
        "{text}"
    );
    assert!(text.contains(&said), "{text}");
    assert!(
        text.contains(&format!("each group needs {needed} runs")),
        "{text}"
    );
}

#[test]
fn one_group_behind_the_other_is_said_to_hide_what_else_changed() {
    let folder = recordings(4, 0);
    // The first runs of each kind, then the last: the groups differ in time.
    let words = format!("--before b0.vmn a0.vmn --after {}", names("a", 2..4));
    let text = compare(&folder, &words);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("Alternate the runs"), "{text}");
}

#[test]
fn conditions_are_tested_on_each_run_after_the_change() {
    let folder = recordings(2, 20_000);
    let words = "--before b0.vmn b1.vmn --after a0.vmn a1.vmn --format json";
    let output = compare(&folder, &format!("{words} --fail-if steal>0.05%"));
    assert_eq!(output.status.code(), Some(2));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs: Vec<u64> = found["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["run"].as_u64().unwrap())
        .collect();
    assert_eq!(runs, [2, 3]);
}

#[test]
fn half_a_question_is_refused() {
    let folder = recordings(1, 0);
    let many = "b0.vmn ".repeat(51);
    for (words, why) in [
        ("--before b0.vmn".to_owned(), "--after"),
        ("--after b0.vmn".to_owned(), "--before"),
        (
            "a0.vmn --before b0.vmn --after a0.vmn".to_owned(),
            "--before",
        ),
        (format!("--before {many} --after a0.vmn"), "name 50 at most"),
    ] {
        let output = compare(&folder, &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(129), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    }
}

/// Comparison with another program.
mod engine {
    use super::*;

    /// Returns scipy's results for the same numbers, the number of figures, and how many had ties.
    fn ask(found: &[u8]) -> Value {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let mut asked = Command::new("python3")
            .arg(tests.join("compare_groups/ask.py"))
            .env("PYTHONPATH", tests.join("../../../target/python"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut asked.stdin.take().unwrap(), found).unwrap();
        let output = asked.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[test]
    fn scipy_finds_the_same() {
        let folder = recordings(7, 300);
        // 7 against 5 runs, and 3 against 3.
        for (before, after) in [(7, 5), (3, 3)] {
            let words = format!(
                "--before {} --after {} --format json",
                names("b", 0..before),
                names("a", 0..after)
            );
            let output = compare(&folder, &words);
            json(&output);
            let asked = ask(&output.stdout);
            assert!(asked["tested"].as_u64().unwrap() >= 6, "{asked}");
            // The steal clock took the same time from each run.
            assert!(asked["ties"].as_u64().unwrap() >= 1, "{asked}");
        }
    }
}
