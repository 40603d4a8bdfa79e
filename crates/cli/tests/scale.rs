//! Tests of `vmnoise scale` as a user runs it.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::join_pair::{write_guest, write_tasks};
use crate::many_gaps::{
    RARE_EVERY, RARE_NS, SHORT_TICK_NS, write_blind_now_and_then, write_rare_task, write_unlike,
};

const TICKS: u64 = 6_000;

/// Returns recordings with the same ticks, with and without a rare culprit.
fn recordings() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_rare_task(&folder.path().join("loud.vmn"), TICKS, true);
    write_rare_task(&folder.path().join("quiet.vmn"), TICKS, false);
    folder
}

fn scale(folder: &TempDir, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path()).arg("scale");
    command.args(words.split_whitespace()).output().unwrap()
}

fn document(folder: &TempDir, words: &str) -> Value {
    let output = scale(folder, &format!("{words} --format json"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""), "{words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The injected culprit is named at the scale at which ranks wait for it. The tick, which is short
/// and frequent, is not.
#[test]
fn the_injected_culprit_is_named_at_the_scale_at_which_it_costs() {
    let folder = recordings();
    let loud = document(&folder, "loud.vmn --ranks 1,200 --step 1ms");
    assert_eq!(loud["schema"], "vmnoise.scale/1");
    let names: Vec<_> = loud["suspects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names[..2], ["local_timer", "ksmd"]);
    assert_eq!(loud["suspects"][1]["gaps"], TICKS / RARE_EVERY);
    // 200 ns of each gap are the way in and out, which has no known culprit.
    assert_eq!(loud["suspects"][1]["most_ns"], RARE_NS - 200);
    let gain = |scale: usize, suspect: usize| {
        loud["scales"][scale]["without"][suspect]["gain_percent"]
            .as_f64()
            .unwrap()
    };
    // One step in 600 is longer by 30 %: of 200 one in 1 - (1 - 1/600)^200 = 0.284, and all of them by the tick, 0.5 %.
    assert!(gain(0, 1) < 0.1, "{loud}");
    let mean = 0.716 * 1.005 + 0.284 * 1.301;
    assert!(
        (gain(1, 1) - 100.0 * (1.0 - 1.005 / mean)).abs() < 0.5,
        "{loud}"
    );
    assert!(gain(1, 0) < 0.5, "{loud}");
    let quiet = document(&folder, "quiet.vmn --ranks 200 --step 1ms");
    let slowdown = quiet["scales"][0]["slowdown_percent"].as_f64().unwrap();
    let tick = 100.0 * SHORT_TICK_NS as f64 / 1e6;
    assert!((slowdown / tick - 1.0).abs() < 0.01, "{slowdown} {tick}");
    let text = scale_text(&folder, "loud.vmn --ranks 200");
    assert!(text.contains("thread ksmd  7"), "{text}");
}

/// A single rank loses what its CPU lost according to the summary.
#[test]
fn one_rank_loses_what_its_cpu_loses() {
    let folder = recordings();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    let explain = command
        .current_dir(folder.path())
        .args(["explain", "loud.vmn", "--format", "json"]);
    let summary: Value = serde_json::from_slice(&explain.output().unwrap().stdout).unwrap();
    let left = summary["cpus"][0]["cpu_available_percent"]
        .as_f64()
        .unwrap()
        / 100.0;
    let one = document(&folder, "loud.vmn --ranks 1 --step 100us");
    let slowdown = one["scales"][0]["slowdown_percent"].as_f64().unwrap() / 100.0;
    // The last step of the run does not begin.
    assert!(
        (slowdown / (1.0 / left - 1.0) - 1.0).abs() < 1e-3,
        "{slowdown} {left}"
    );
}

/// Hosts stay separate: one of two is quiet, and a rank on it meets only ticks.
#[test]
fn each_recording_is_a_host() {
    let folder = recordings();
    let both = document(&folder, "quiet.vmn loud.vmn --ranks 1..2");
    let alone = document(&folder, "quiet.vmn --ranks 1");
    assert_eq!(both["scales"][0]["step_ns"], alone["scales"][0]["step_ns"]);
    assert_eq!(both["scales"][1]["hosts"], 2);
    assert!(both["scales"][1]["step_ns"].as_f64() > both["scales"][0]["step_ns"].as_f64());
}

#[test]
fn what_is_beyond_the_recording_is_said() {
    let folder = recordings();
    let beyond = document(&folder, "quiet.vmn --ranks 1000000 --step 10ms");
    let scale = &beyond["scales"][0];
    // 24 s hold 2,400 steps.
    assert!(beyond["carried_ranks"].as_u64() <= Some(24), "{beyond}");
    assert_eq!(
        (&scale["basis"], &scale["step_ns"], &scale["why_not"]),
        (&"nothing".into(), &Value::Null, &"few_steps".into())
    );
    // Each step of 10 ms meets two or three ticks of 5 us.
    let at_least = scale["at_least_ns"].as_f64().unwrap();
    assert!((10_009_000.0..10_016_000.0).contains(&at_least), "{scale}");
    let text = scale_text(&folder, "quiet.vmn --ranks 1000000 --step 10ms");
    assert!(
        text.contains("0.15 or more") || text.contains("0.14 or more"),
        "{text}"
    );
    assert!(
        text.contains("fewer than 100 steps of 1000000 ranks: record for longer"),
        "{text}"
    );
}

/// The recorder writes for 500 ns of each 10 ms, which is 0.005 % of the time, or 150 us of 3 s.
#[test]
fn unobserved_time_is_said_however_little_it_is() {
    let folder = recordings();
    write_blind_now_and_then(&folder.path().join("blind.vmn"), 3_000, 500);
    let blind = document(&folder, "blind.vmn --ranks 1");
    assert_eq!(blind["is_lower_bound"], false);
    let spots = &blind["recordings"][0]["blind_spots"];
    assert_eq!(spots.as_array().map(Vec::len), Some(1), "{spots}");
    assert_eq!(
        (&spots[0]["reason"], &spots[0]["ns"]),
        (&"unplaced".into(), &150_000.into())
    );
    let line = "unobserved time, 0.01 % of a CPU's time at most, is in no figure; record while the machine is quieter";
    let text = scale_text(&folder, "blind.vmn --ranks 1");
    assert!(text.contains(line), "{text}");
    let text = scale_text(&folder, "quiet.vmn --ranks 1");
    assert!(!text.contains("unobserved time"), "{text}");
}

/// Gaps of 45 different lengths do not show how long gaps can get.
#[test]
fn an_unknown_tail_has_a_reason_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    write_unlike(&folder.path().join("unlike.vmn"), 45);
    let found = document(&folder, "unlike.vmn --ranks 1 --step 1ms");
    let scale = &found["scales"][0];
    assert_eq!(
        (&scale["basis"], &scale["step_ns"], &scale["why_not"]),
        (&"nothing".into(), &Value::Null, &"unknown_tail".into())
    );
    assert!(scale["at_least_ns"].as_f64().unwrap() > 1e6, "{scale}");
    let text = scale_text(&folder, "unlike.vmn --ranks 1 --step 1ms");
    assert!(
        text.contains("unknown tail: fewer than 50 long delays do not show whether gaps that were not recorded"),
        "{text}"
    );
}

fn scale_text(folder: &TempDir, words: &str) -> String {
    String::from_utf8(scale(folder, words).stdout).unwrap()
}

#[test]
fn what_cannot_be_predicted_from_is_refused_in_a_line() {
    let folder = recordings();
    write_tasks(&folder.path().join("tasks.vmn"));
    write_guest(&folder.path().join("guest.vmn"));
    for (words, status, why) in [
        (
            "tasks.vmn",
            129,
            "tasks.vmn is of `vmnoise timerlat`, which has no gaps",
        ),
        ("nothing.vmn", 1, "nothing.vmn"),
        ("loud.vmn --step 0", 129, "0 is outside 1us to 1h"),
        (
            "loud.vmn --step 3parsec",
            129,
            "`parsec` is no unit of time",
        ),
        (
            "loud.vmn --step 10m",
            1,
            "is too short for a step of 600.000 s",
        ),
        ("loud.vmn --ranks 0", 129, "no number of ranks from 1 to"),
        (
            "loud.vmn --ranks 99999999999",
            129,
            "no number of ranks from 1 to",
        ),
        (
            "loud.vmn quiet.vmn --co-scheduled",
            129,
            "takes one recording",
        ),
    ] {
        let output = scale(&folder, words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{words}: {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{words}: {said}"
        );
        assert!(output.stdout.is_empty());
    }
}
