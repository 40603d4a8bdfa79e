//! Tests of `vmnoise compare` as a user runs it.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::join_pair::{Flaws, write_guest, write_host, write_tasks};

/// Returns two recordings of a guest, of gaps and of tasks, and one of its host.
fn recordings() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_guest(&folder.path().join("a.vmn"));
    write_tasks(&folder.path().join("tasks.vmn"));
    write_host(&folder.path().join("host.vmn"), Flaws::default());
    folder
}

fn compare(folder: &TempDir, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path()).arg("compare");
    command.args(words.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[test]
fn a_recording_beside_itself_differs_in_nothing() {
    let folder = recordings();
    let output = compare(&folder, "a.vmn a.vmn --format json");
    assert_eq!(
        text(&output.stderr),
        "vmnoise: a.vmn and a.vmn are of the same run\n"
    );
    assert_eq!(output.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "vmnoise.compare/1");
    assert_eq!(json["runs"][1]["windows"], 20);
    let comparison = &json["comparisons"][0];
    assert_eq!(
        (&comparison["first"], &comparison["second"]),
        (&0.into(), &1.into())
    );
    let figures = comparison["figures"].as_array().unwrap();
    let names: Vec<&str> = figures
        .iter()
        .map(|it| it["figure"].as_str().unwrap())
        .collect();
    assert_eq!(
        names[..7],
        ["noise", "gaps", "p50", "p90", "p99", "p99.9", "max"]
    );
    for figure in figures {
        assert_ne!(figure["verdict"], "different", "{figure}");
        assert_eq!(figure["first"], figure["second"]);
    }
    // Unknown is not 0.
    let hardware = figures.iter().find(|it| it["figure"] == "hw").unwrap();
    assert!(hardware["first"].is_null(), "{hardware}");
}

#[test]
fn conditions_set_the_status() {
    let folder = recordings();
    let status = |words: &str| compare(&folder, words).status.code();
    // The longest gaps are 62.986 us.
    assert_eq!(status("a.vmn --fail-if max>60us"), Some(2));
    assert_eq!(status("a.vmn --fail-if max>70us"), Some(0));
    assert_eq!(status("a.vmn --fail-if max>70us --fail-if gaps>1"), Some(2));
    assert_eq!(status("a.vmn a.vmn --fail-if noise<100%"), Some(2));
    // An unknown figure cannot pass.
    assert_eq!(status("a.vmn --fail-if hw>1%"), Some(2));
    let said = compare(&folder, "a.vmn --fail-if max>60us");
    let said = text(&said.stdout);
    assert!(
        said.contains("max>60us") && said.contains("yes: status 2"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = recordings();
    for (words, status, why) in [
        (
            "a.vmn host.vmn",
            129,
            "a.vmn is of `vmnoise osnoise` and host.vmn of `vmnoise exits`",
        ),
        (
            "host.vmn --fail-if p99>20us",
            129,
            "no figure `p99`; write one of these, for exits:",
        ),
        ("tasks.vmn --fail-if p99>20us", 129, "for wakeups: irq.p50"),
        ("a.vmn nothing.vmn", 1, "nothing.vmn"),
        ("a.vmn --fail-if p98>20us", 129, "there is no figure `p98`"),
        ("", 129, "RECORDINGS"),
    ] {
        let output = compare(&folder, words);
        assert_eq!(output.status.code(), Some(status), "{words}");
        assert!(
            text(&output.stderr).contains(why),
            "{}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
    }
}

fn figure(json: &Value, name: &str) -> Value {
    let figures = json["comparisons"][0]["figures"].as_array().unwrap();
    let found = figures.iter().find(|it| it["figure"] == name);
    found.unwrap_or_else(|| panic!("{name}")).clone()
}

#[test]
fn latencies_and_exits_have_figures_of_their_own() {
    let folder = recordings();
    let json = |words: &str| -> Value {
        let output = compare(&folder, words);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let tasks = json("tasks.vmn tasks.vmn --format json");
    assert_eq!(
        (&tasks["of"], &tasks["threshold_ns"]),
        (&"wakeups".into(), &Value::Null)
    );
    // A wake-up that waits for an exit of 62.486 us is due 500 ns before the exit and comes 900 ns
    // after it.
    assert_eq!(figure(&tasks, "user.max")["first"], 63_886.0);
    assert_eq!(figure(&tasks, "thread.max")["first"], 63_586.0);
    assert_eq!(figure(&tasks, "irq.max")["first"], 63_186.0);
    let exits = json("host.vmn host.vmn --format json");
    assert_eq!(exits["of"], "exits");
    assert_eq!(figure(&exits, "interrupt.max")["first"], 62_486.0);
    // Exits are counted once, at the end, so there are no windows to test.
    let counted = figure(&exits, "interrupt.exits");
    assert!(counted["first"].as_f64().unwrap() > 0.0);
    assert_eq!(counted["verdict"], "untested");
    for words in ["tasks.vmn tasks.vmn", "host.vmn host.vmn"] {
        let page = compare(&folder, &format!("{words} --format html"));
        let named = if words.starts_with('t') {
            "user.p99.9"
        } else {
            "interrupt.p99"
        };
        assert!(text(&page.stdout).contains(named), "{words}");
    }
}

#[test]
fn conditions_look_at_latencies_and_exits() {
    let folder = recordings();
    let status = |words: &str| compare(&folder, words).status.code();
    assert_eq!(status("tasks.vmn --fail-if user.max>63us"), Some(2));
    assert_eq!(status("tasks.vmn --fail-if user.max>64us"), Some(0));
    assert_eq!(status("host.vmn --fail-if interrupt.max>62us"), Some(2));
    assert_eq!(status("host.vmn --fail-if INTERRUPT.max>63us"), Some(0));
    // An exit that did not occur has a count of 0.
    assert_eq!(status("host.vmn --fail-if shutdown.exits>0"), Some(0));
}
