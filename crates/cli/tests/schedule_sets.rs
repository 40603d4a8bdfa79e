//! Tests of `vmnoise schedule` with tasks that share a CPU, under each policy; with two CPUs; and
//! with a recording that lost gaps.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use vmnoise_events::{Event, Loss, LossKind};
use vmnoise_recording::{RecordingReader, Writer};

use crate::join_pair::write_tasks;
use crate::many_gaps::{TICK_NS, TURN_NS, copy_with, write, write_by_the_clock};

/// Task set with placeholders: the policy, the priorities of the two tasks, and the preemption of
/// the first.
const SET: &str = r#"
policy = "POLICY"
[[task]]
name = "long"
cost = "200us"
period = "10ms"
PRIORITY_30
PREEMPTION
[[task]]
name = "short"
cost = "300us"
period = "20ms"
deadline = "4ms"
PRIORITY_40
"#;

/// Longest work that waits for at most one turn and one tick: the time between a tick and a turn,
/// and from there to the next tick.
const UP_TO_NS: u64 = 1_000_000 - TICK_NS - TURN_NS;
const TAKEN_NS: u64 = TURN_NS + TICK_NS;

fn schedule(folder: &TempDir, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path()).arg("schedule");
    command.args(words.split_whitespace());
    command.args(["--format", "json"]).output().unwrap()
}

fn json(folder: &TempDir, words: &str) -> Value {
    serde_json::from_slice(&schedule(folder, words).stdout).unwrap()
}

/// Returns the responses of both tasks, in nanoseconds.
fn responses_ns(folder: &TempDir, policy: &str, preemption: &str) -> [u64; 2] {
    let priority = |it: u32| match policy {
        "fp" => format!("priority = {it}"),
        _ => String::new(),
    };
    let set = SET
        .replace("POLICY", policy)
        .replace("PREEMPTION", preemption)
        .replace("PRIORITY_30", &priority(30))
        .replace("PRIORITY_40", &priority(40));
    fs::write(folder.path().join("set.toml"), set).unwrap();
    let printed = json(folder, "run.vmn --tasks set.toml");
    assert_eq!(printed["policy"], policy);
    let tasks = &printed["cpus"][0]["tasks"];
    [0, 1].map(|nth| {
        assert_eq!(tasks[nth]["verdict"], "holds", "{printed}");
        tasks[nth]["response_ns"].as_u64().unwrap()
    })
}

#[test]
fn who_waits_for_whom_is_the_policys_to_say() {
    let folder = tempfile::tempdir().unwrap();
    write_by_the_clock(&folder.path().join("run.vmn"), 3_000);
    let (long_ns, short_ns) = (200_000, 300_000);
    let both_ns = long_ns + short_ns;
    assert!(both_ns <= UP_TO_NS);
    let [alone_ns, together_ns] = [short_ns, both_ns].map(|ns| ns + TAKEN_NS);
    // The earlier deadline goes first, like the higher priority.
    for policy in ["edf", "fp"] {
        assert_eq!(responses_ns(&folder, policy, ""), [together_ns, alone_ns]);
        // A job that has just begun cannot be preempted at all, or not within a section.
        let [_, blocked_ns] = responses_ns(&folder, policy, "non_preemptive = \"all\"");
        assert_eq!(blocked_ns, alone_ns + long_ns - 1);
        let [_, blocked_ns] = responses_ns(&folder, policy, "non_preemptive = \"50us\"");
        assert_eq!(blocked_ns, alone_ns + 50_000 - 1);
    }
    // The other job may have come just before.
    assert_eq!(responses_ns(&folder, "fifo", ""), [together_ns; 2]);
}

#[test]
fn each_cpu_is_judged_and_the_worst_of_them_is_the_status() {
    let folder = tempfile::tempdir().unwrap();
    // No gap is longer than 5 us, and the next one is at least 30 us away, except for the long ones
    // of CPU 0.
    let longest_ns = *write(&folder.path().join("run.vmn"), 20_000, 1_000)
        .last()
        .unwrap();
    let set = "policy = \"fifo\"\n[[task]]\nname = \"short\"\ncost = \"5us\"\nperiod = \"1ms\"\ndeadline = \"12us\"\n";
    fs::write(folder.path().join("set.toml"), set).unwrap();
    let task = |cpu: &Value| cpu["tasks"][0].clone();
    let both = json(&folder, "run.vmn --tasks set.toml");
    let [first, second] = [0, 1].map(|cpu| task(&both["cpus"][cpu]));
    assert_eq!(first["response_ns"], 5_000 + longest_ns);
    assert_eq!(
        (&first["verdict"], &second["verdict"]),
        (&"may_miss".into(), &"holds".into())
    );
    assert!(
        second["response_ns"].as_u64().unwrap() <= 10_000,
        "{second}"
    );
    for (words, cpu, status) in [("-c 0", first, 2), ("-c 1", second, 0)] {
        let words = format!("run.vmn --tasks set.toml {words}");
        let output = schedule(&folder, &words);
        assert_eq!(output.status.code(), Some(status), "{words}");
        let alone: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(alone["cpus"].as_array().unwrap().len(), 1);
        assert_eq!(task(&alone["cpus"][0]), cpu);
    }
    let output = schedule(&folder, "run.vmn --tasks set.toml");
    assert_eq!(output.status.code(), Some(2));
}

/// Writes a copy of a run in which this number of gaps was lost.
fn lose(run: &Path, copy: &Path, count: u64) {
    let mut reader = RecordingReader::open(run).unwrap();
    let mut writer = Writer::create(copy, reader.facts()).unwrap();
    while let ControlFlow::Continue(event) = reader.next_event().unwrap() {
        if matches!(event, Event::Finish(_)) {
            let kind = LossKind::MailboxFull;
            writer.push(&Event::Loss(Loss { kind, count })).unwrap();
        }
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();
}

/// Copies a recording as if the machine of this run had made it.
pub fn move_to(run: &Path, other: &Path, copy: &Path) {
    let reader = RecordingReader::open(run).unwrap();
    copy_with(other, copy, |facts| {
        facts.host = reader.facts().host.clone();
    });
}

#[test]
fn where_gaps_were_lost_nothing_holds_and_what_misses_still_does() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.vmn");
    write_by_the_clock(&run, 3_000);
    lose(&run, &folder.path().join("lost.vmn"), 3);
    for (deadline, verdict, status) in [("10ms", "cannot_tell", 3), ("600us", "may_miss", 2)] {
        let set = format!(
            "policy = \"edf\"\n[[task]]\nname = \"it\"\ncost = \"200us\"\nperiod = \"10ms\"\ndeadline = \"{deadline}\"\n"
        );
        fs::write(folder.path().join("set.toml"), set).unwrap();
        let output = schedule(&folder, "lost.vmn --tasks set.toml");
        assert_eq!(output.status.code(), Some(status));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let cpu = &printed["cpus"][0];
        assert_eq!(cpu["lost_gaps"], 3);
        let task = &cpu["tasks"][0];
        assert_eq!(task["verdict"], verdict);
        assert_eq!(task["response_ns"], 200_000 + TAKEN_NS);
    }
}

#[test]
fn where_wake_ups_were_lost_nothing_holds_either() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.vmn");
    write_by_the_clock(&run, 3_000);
    let elsewhere = folder.path().join("elsewhere.vmn");
    write_tasks(&elsewhere);
    let whole = folder.path().join("lat.vmn");
    move_to(&run, &elsewhere, &whole);
    lose(&whole, &folder.path().join("lost.vmn"), 3);
    let set = "policy = \"edf\"\n[[task]]\nname = \"it\"\ncost = \"200us\"\nperiod = \"20ms\"\n";
    fs::write(folder.path().join("set.toml"), set).unwrap();
    for (latencies, status) in [("lat.vmn", 0), ("lost.vmn", 3)] {
        let words = format!("run.vmn {latencies} --tasks set.toml");
        let output = schedule(&folder, &words);
        assert_eq!(output.status.code(), Some(status), "{words}");
    }
}
