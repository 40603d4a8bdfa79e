//! Tests of `vmnoise schedule` as a user runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use vmnoise_events::Policy;

use crate::join_pair::{Flaws, write_host, write_tasks};
use crate::many_gaps::{
    BLIND_EVERY_NS, TICK_NS, TURN_NS, copy_with, write_blind_now_and_then, write_by_the_clock,
    write_only_turns,
};
use crate::schedule_sets::move_to;

const TASKS: &str = r#"
policy = "fp"
[[task]]
name = "control"
cost = "200us"
period = "10ms"
deadline = "1ms"
priority = 80
"#;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_by_the_clock(&folder.path().join("run.vmn"), 3_000);
    fs::write(folder.path().join("tasks.toml"), TASKS).unwrap();
    folder
}

fn schedule(folder: &TempDir, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path()).arg("schedule");
    command.args(words.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

fn json(folder: &TempDir, words: &str) -> Value {
    let output = schedule(folder, &format!("{words} --format json"));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Response of the task if its window begins with the disturbing task's turn: it waits for the
/// whole turn and for the next tick.
const WORST_NS: u64 = TURN_NS + TICK_NS + 200_000;

#[test]
fn each_length_of_window_has_the_least_that_was_left_in_any() {
    let folder = folder();
    let cpu = &json(&folder, "run.vmn --csv out.csv")["cpus"][0];
    assert_eq!(
        (&cpu["gaps"], &cpu["lost_gaps"]),
        (&3_030.into(), &0.into())
    );
    let windows = cpu["windows"].as_array().unwrap();
    assert!(windows.len() >= 200, "{}", windows.len());
    let table = fs::read_to_string(folder.path().join("out.csv")).unwrap();
    let mut rows = table.lines();
    let heading =
        "cpu,window_ns,left_at_least_ns,unseen_at_most_ns,irq_at_most_ns,thread_at_most_ns";
    assert!(rows.next().unwrap().starts_with(heading), "{table}");
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), windows.len());
    for (window, row) in windows.iter().zip(rows) {
        let length_ns = window["window_ns"].as_u64().unwrap();
        let left_ns = window["left_at_least_ns"].as_u64().unwrap();
        // One tick in each millisecond of the window, and one turn in each tenth of a second.
        let ticks = length_ns / 1_000_000 * TICK_NS;
        let turns = length_ns / 100_000_000 * TURN_NS;
        let taken_ns = length_ns - left_ns;
        assert!(taken_ns >= (ticks + turns).min(length_ns), "{window}");
        assert!(taken_ns <= ticks + turns + TICK_NS + TURN_NS, "{window}");
        // The worst window of each share: one tick or one turn more than the share has in every
        // window.
        let shares = &window["shares_at_most_ns"];
        let [irq_ns, thread_ns] = ["irq", "thread"].map(|it| shares[it].as_u64().unwrap());
        assert!(
            irq_ns <= ticks + TICK_NS && thread_ns <= turns + TURN_NS,
            "{window}"
        );
        assert!(
            irq_ns + thread_ns + 400 * (1 + length_ns / 1_000_000) >= taken_ns,
            "{window}"
        );
        let expected = format!("0,{length_ns},{left_ns},0,{irq_ns},{thread_ns},");
        assert!(row.starts_with(&expected), "{row}");
    }
}

#[test]
fn what_went_by_unseen_is_not_called_left() {
    let folder = folder();
    // A window across two readings of the counters may contain the unobserved time of both. A
    // window longer than a millisecond meets the next tick.
    let holds = (100_000, 0, "holds", 0);
    for (blind_ns, tick_ns, verdict, status) in [holds, (300_000, TICK_NS, "cannot_tell", 3)] {
        write_blind_now_and_then(&folder.path().join("blind.vmn"), 3_000, blind_ns);
        let cpu = &json(&folder, "blind.vmn --tasks tasks.toml")["cpus"][0];
        assert_eq!(cpu["unseen_ns"], 300 * blind_ns);
        let task = &cpu["tasks"][0];
        let response_ns = WORST_NS + 2 * blind_ns + tick_ns;
        assert_eq!(task["response_ns"], response_ns, "{task}");
        assert_eq!(task["verdict"], verdict, "{task}");
        let output = schedule(&folder, "blind.vmn --tasks tasks.toml");
        assert_eq!(output.status.code(), Some(status));
        for window in cpu["windows"].as_array().unwrap() {
            let ns = |name: &str| window[name].as_u64().unwrap();
            let most_ns = (2 + ns("window_ns") * 2 / BLIND_EVERY_NS) * blind_ns;
            assert!(ns("unseen_at_most_ns") <= most_ns, "{window}");
            assert!(ns("left_at_least_ns") + ns("unseen_at_most_ns") <= ns("window_ns"));
        }
    }
}

#[test]
fn tasks_hold_or_may_miss_or_cannot_be_told() {
    let folder = folder();
    let task = |words: &str| json(&folder, words)["cpus"][0]["tasks"][0].clone();
    let held = task("run.vmn --tasks tasks.toml");
    assert_eq!(held["verdict"], "holds");
    assert_eq!(held["response_ns"], WORST_NS);
    assert_eq!(held["slack_ns"], 1_000_000 - WORST_NS);
    // The next tick comes only after the deadline.
    assert_eq!(held["breakdown_gap_ns"], 1_000_001 - WORST_NS);
    let without = task("run.vmn --tasks tasks.toml --without ksmd");
    // The way into the turn and out of it has no culprit.
    assert_eq!(without["response_ns"], TICK_NS + 200 + 200_000);

    let status = |words: &str| schedule(&folder, words).status.code();
    assert_eq!(status("run.vmn"), Some(0));
    assert_eq!(status("run.vmn --tasks tasks.toml"), Some(0));
    let tight = TASKS.replace("deadline = \"1ms\"", "deadline = \"600us\"");
    fs::write(folder.path().join("tight.toml"), tight).unwrap();
    assert_eq!(status("run.vmn --tasks tight.toml"), Some(2));
    assert_eq!(
        status("run.vmn --tasks tight.toml --without thread"),
        Some(0)
    );
    // Twenty milliseconds contain 30 busy windows.
    write_by_the_clock(&folder.path().join("short.vmn"), 20);
    assert_eq!(status("short.vmn --tasks tasks.toml"), Some(3));
    let said = schedule(&folder, "short.vmn --tasks tasks.toml").stdout;
    let said = text(&said);
    assert!(
        said.contains("CANNOT TELL") && said.contains("record for 1.000 s"),
        "{said}"
    );
    // A run that is shorter than a period adds nothing and does no harm.
    write_by_the_clock(&folder.path().join("tiny.vmn"), 9);
    let windows = |words: &str| json(&folder, words)["cpus"][0]["tasks"][0]["windows"].clone();
    let alone = windows("run.vmn --tasks tasks.toml");
    assert_eq!(windows("run.vmn tiny.vmn --tasks tasks.toml"), alone);
    assert_eq!(
        windows("run.vmn short.vmn --tasks tasks.toml"),
        alone.as_u64().unwrap() + 2
    );
    assert_eq!(status("short.vmn run.vmn --tasks tasks.toml"), Some(0));
}

/// An ordinary thread also waits for tasks that a real-time task does not wait for.
#[test]
fn a_miss_that_an_ordinary_thread_recorded_is_an_upper_bound() {
    let folder = folder();
    let [run, urgent] = ["run.vmn", "urgent.vmn"].map(|it| folder.path().join(it));
    copy_with(&run, &urgent, |facts| {
        facts.options.priority = Some(Policy::Fifo(79));
    });
    let tight = TASKS.replace("deadline = \"1ms\"", "deadline = \"600us\"");
    // It needs 99 % of the CPU. The ticks alone take 50 us of each millisecond, which is 5 %.
    let overload = TASKS.replace("200us", "9900us");
    let overload = overload.replace("deadline = \"1ms\"", "deadline = \"10ms\"");
    for (name, set) in [("tight.toml", tight), ("overload.toml", overload)] {
        fs::write(folder.path().join(name), set).unwrap();
    }
    for (words, is_upper_bound) in [
        ("run.vmn --tasks tight.toml", true),
        ("run.vmn --tasks overload.toml", true),
        ("urgent.vmn --tasks tight.toml", false),
        ("urgent.vmn --tasks overload.toml", false),
    ] {
        let task = json(&folder, words)["cpus"][0]["tasks"][0].clone();
        assert_eq!(task["verdict"], "may_miss", "{words}");
        let reason = task["reason"].as_str().unwrap_or_default();
        assert_eq!(reason.contains("upper bound"), is_upper_bound, "{task}");
        let said = schedule(&folder, words).stdout;
        let line =
            " control: the recorder, an ordinary thread, also waited for tasks of lower priority";
        assert_eq!(text(&said).contains(line), is_upper_bound, "{words}");
    }
    let held = schedule(&folder, "run.vmn --tasks tasks.toml").stdout;
    assert!(!text(&held).contains("upper bound"), "{}", text(&held));
}

#[test]
fn the_worst_window_names_who_took_it() {
    let folder = folder();
    let said = schedule(&folder, "run.vmn").stdout;
    let said = text(&said);
    let row = said
        .lines()
        .find(|it| it.trim_start().starts_with("1.000 ms"));
    let row = row.unwrap();
    assert!(
        row.contains("550.0 us") && row.contains("450.0 us"),
        "{row}"
    );
    // The edges of a gap are the way in and out, which belong to no activity.
    assert!(
        row.contains("thread ksmd:31 399.8 us, irq local_timer:236 49.8 us"),
        "{row}"
    );
}

#[test]
fn who_is_left_out_is_not_blamed() {
    let folder = folder();
    let said = schedule(&folder, "run.vmn --without ksmd").stdout;
    let said = text(&said);
    assert!(
        said.contains("irq local_timer:236") && !said.contains("ksmd:31"),
        "{said}"
    );
    refused(
        &folder,
        "run.vmn --without ksoftirqd",
        "no culprit or share `ksoftirqd` took any time; write one of these: ",
    );
}

#[test]
fn nothing_that_is_read_is_overwritten_and_no_run_counts_twice() {
    let folder = folder();
    let before = fs::read(folder.path().join("run.vmn")).unwrap();
    refused(
        &folder,
        "run.vmn --csv ./run.vmn",
        "would overwrite an input file",
    );
    assert_eq!(fs::read(folder.path().join("run.vmn")).unwrap(), before);
    fs::write(folder.path().join("again.vmn"), before).unwrap();
    refused(&folder, "run.vmn again.vmn", "are of the same run");
    // It begins a second after the other run, which takes three seconds.
    write_by_the_clock(&folder.path().join("meanwhile.vmn"), 3_001);
    let at_once = "are of CPU 0 at the same time";
    refused(&folder, "run.vmn meanwhile.vmn", at_once);
}

#[test]
fn the_latency_of_timers_blocks() {
    let folder = folder();
    let [run, elsewhere, lat] =
        ["run.vmn", "elsewhere.vmn", "lat.vmn"].map(|it| folder.path().join(it));
    write_tasks(&elsewhere);
    move_to(&run, &elsewhere, &lat);
    let both = json(&folder, "run.vmn lat.vmn --tasks tasks.toml");
    let cpu = &both["cpus"][0];
    let blocking_ns = cpu["blocking_ns"].as_u64().unwrap();
    assert!(blocking_ns > 0);
    assert_eq!(cpu["tasks"][0]["response_ns"], WORST_NS + blocking_ns);
    let output = schedule(&folder, "lat.vmn --tasks tasks.toml");
    assert_eq!(output.status.code(), Some(129));
    assert!(text(&output.stderr).contains("add a recording of `osnoise` or `microvm`"));
}

/// Writes a model as LiME 0.4.0 does.
fn write_model(folder: &Path, id: &str, policy: Value, kernel: &str) {
    let models = json!({
        "rbf": {"steps": [[1, 200_000]]},
        "rps": 100.0,
        "by_job_separator": [{
            "separator": {"type": "clock_nanosleep", "clock_id": "ClockMonotonic", "abs_time": true},
            "count": 5_000,
            "wcet_n": [180_000, 350_000],
            "dynamic_self_suspension": 20_000,
            "arrival_models": [
                {"model": "arrival_curve", "dmins": [9_999_000, 19_999_000], "dmaxs": [10_001_000, 20_001_000]},
                {"model": "sporadic", "mit": 9_999_000},
                {"model": "of_a_later_release", "any": 1},
                {"model": "periodic", "on": "release", "period": 10_000_000, "offset": 0, "max_jitter": 1_000},
            ],
        }],
    });
    let infos = json!({
        "pid": 7, "tgid": 7, "ppid": 1, "comm": "control", "cmd": null,
        "policy": policy, "affinity_mask": {"cpu_set": [0]},
    });
    let system = json!({"system": {"kernel_version": kernel}});
    fs::create_dir_all(folder).unwrap();
    for (name, value) in [
        (format!("{id}.models.json"), models),
        (format!("{id}.infos.json"), infos),
        ("sysinfo.json".into(), system),
    ] {
        fs::write(folder.join(name), value.to_string()).unwrap();
    }
}

#[test]
fn models_of_lime_are_tasks() {
    let folder = folder();
    let kernel = json_of_kernel(&folder);
    let models = folder.path().join("lime");
    write_model(&models, "7-0", json!({"SCHED_FIFO": {"prio": 80}}), &kernel);
    let task = json(&folder, "run.vmn --tasks lime")["cpus"][0]["tasks"][0].clone();
    assert_eq!(
        (&task["name"], &task["priority"]),
        (&"control".into(), &80.into())
    );
    // The sleep within a job counts as work; a job must end before the next one.
    assert_eq!(
        (&task["cost_ns"], &task["deadline_ns"]),
        (&200_000.into(), &9_999_000.into())
    );
    assert_eq!(task["response_ns"], WORST_NS);

    let edf = json!({"SCHED_DEADLINE": {"runtime": 300_000, "period": 10_000_000, "deadline": 5_000_000}});
    let alone = folder.path().join("alone");
    write_model(&alone, "7-0", edf.clone(), &kernel);
    let words = "run.vmn --tasks alone/7-0.models.json";
    assert_eq!(json(&folder, words)["policy"], "edf");
    assert_eq!(
        json(&folder, words)["cpus"][0]["tasks"][0]["deadline_ns"],
        5_000_000
    );

    write_model(&models, "9-0", edf, &kernel);
    let ordinary = folder.path().join("ordinary");
    write_model(&ordinary, "7-0", json!("SCHED_OTHER"), &kernel);
    let elsewhere = folder.path().join("elsewhere");
    write_model(
        &elsewhere,
        "7-0",
        json!({"SCHED_FIFO": {"prio": 80}}),
        "5.15.0",
    );
    let slow = json!({"SCHED_DEADLINE": {"runtime": 100_000, "period": 10_000_000, "deadline": 5_000_000}});
    write_model(&folder.path().join("slow"), "7-0", slow, &kernel);
    let bound = folder.path().join("bound");
    write_model(&bound, "7-0", json!({"SCHED_FIFO": {"prio": 80}}), &kernel);
    let infos = bound.join("7-0.infos.json");
    let on_3 = fs::read_to_string(&infos).unwrap();
    fs::write(&infos, on_3.replace("[0]", "[3]")).unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    for (words, why) in [
        (
            "run.vmn --tasks lime",
            "name a folder with tasks of one policy",
        ),
        ("run.vmn --tasks ordinary", "extract without --best-effort"),
        ("run.vmn --tasks elsewhere", "observed under Linux 5.15.0"),
        ("run.vmn --tasks empty", "no models of LiME"),
        (
            "run.vmn --tasks slow/7-0.models.json",
            "limits it to 100.0 us in each 10.000 ms",
        ),
        (
            "run.vmn --tasks bound/7-0.models.json",
            "control may run only on CPU 3",
        ),
    ] {
        refused(&folder, words, why);
    }
}

/// Returns the kernel of the recording.
fn json_of_kernel(folder: &TempDir) -> String {
    let mut explain = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    explain.current_dir(folder.path());
    let output = explain
        .args(["explain", "run.vmn", "--format", "json"])
        .output();
    let json: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    json["kernel"].as_str().unwrap().to_owned()
}

fn refused(folder: &TempDir, words: &str, why: &str) {
    let output = schedule(folder, words);
    assert_eq!(output.status.code(), Some(129), "{words}");
    let said = text(&output.stderr);
    assert!(
        said.contains(why) && said.lines().count() == 1,
        "{words}: {said}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_in_a_line() {
    let folder = folder();
    write_host(&folder.path().join("host.vmn"), Flaws::default());
    for (old, new, why) in [
        (
            "policy = \"fp\"",
            "",
            "missing field `policy`; docs/schedule.md has a whole file",
        ),
        (
            "cost = \"200us\"",
            "cost = \"0us\"",
            "task `control`: cost is 0",
        ),
        ("deadline = \"1ms\"", "deadline = \"0s\"", "deadline is 0"),
        (
            "deadline = \"1ms\"",
            "deadline = \"100us\"",
            "its cost is longer than its deadline",
        ),
        (
            "period = \"10ms\"",
            "period = \"often\"",
            "is no unit of time",
        ),
        (
            "period = \"10ms\"",
            "period = \"10min\"",
            "`min` is no unit of time",
        ),
        ("period = \"10ms\"", "period = 10000", "such as \"10000us\""),
        (
            "period = \"10ms\"",
            "period = \"150us\"",
            "the tasks need 1.333 CPUs",
        ),
        ("priority = 80", "", "it has no priority"),
        ("priority = 80", "prio = 80", "unknown field `prio`"),
        ("priority = 80", "priority = 0", "write one of 1 to 99"),
        (
            "priority = 80",
            "priority = 80\njitter = \"1h\"",
            "its jitter is more than 1000 periods",
        ),
        (
            "\"fp\"",
            "\"rm\"",
            "write fp (SCHED_FIFO by priorities), edf",
        ),
        ("[[task]]", "[[tasks]]", "line 3: "),
        // A quoted name must not begin a new line.
        (
            "name = \"control\"\ncost = \"200us\"",
            "name = \"x\\nforged: holds\"\ncost = \"0us\"",
            "forged: holds`: cost is 0",
        ),
        ("\"200us\"", "\"1\\nforged us\"", "cost: "),
    ] {
        assert!(TASKS.contains(old));
        fs::write(folder.path().join("bad.toml"), TASKS.replace(old, new)).unwrap();
        refused(&folder, "run.vmn --tasks bad.toml", why);
    }
    refused(
        &folder,
        "run.vmn -c 7",
        "no recording has CPU 7: they have CPU 0",
    );
    refused(&folder, "host.vmn", "has no gaps");
    refused(&folder, "run.vmn --tasks run.vmn", "is no text");
    let output = schedule(&folder, "run.vmn --tasks nothing.toml");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot read nothing.toml"));
}

/// Only one of the runs contains the ticks of 50 us.
#[test]
fn from_which_length_on_runs_have_gaps_is_told_as_a_range() {
    let folder = folder();
    write_only_turns(&folder.path().join("later.vmn"), 3_010, 100_000);
    let output = schedule(&folder, "run.vmn later.vmn");
    let printed = text(&output.stdout);
    assert!(
        printed.contains("in 2 runs, 3061 gaps of 1000 ns to 100.0 us, by run, and more, "),
        "{printed}{}",
        text(&output.stderr)
    );
}
