//! Tests of `vmnoise run` as used for comparing benchmarks.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use vmnoise_testbed::{Quota, skipped};

fn vmnoise(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.arg("run").args(arguments).output().unwrap()
}

fn status(arguments: &[&str]) -> i32 {
    vmnoise(arguments).status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the JSON document of a run.
fn document(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let output = ["--format", "json", "-o", file.to_str().unwrap()];
    vmnoise(&[&output, arguments].concat());
    serde_json::from_slice(&fs::read(&file).unwrap()).unwrap()
}

/// Runs vmnoise without the right to trace, by an empty bounding set.
fn without_rights(arguments: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.args([
        "--bounding-set",
        "-all",
        env!("CARGO_BIN_EXE_vmnoise"),
        "run",
    ]);
    command.args(arguments).output().unwrap()
}

/// The signal comes from another process, not from a terminal.
#[test]
fn a_signal_is_passed_on_as_it_came() {
    for (signal, code) in [("INT", 7), ("TERM", 8), ("HUP", 9)] {
        let traps = "trap 'exit 7' INT; trap 'exit 8' TERM; trap 'exit 9' HUP";
        let script = format!("{traps}; echo ready; while :; do sleep 0.02; done");
        // A shell cannot trap a signal that was ignored at its start, as under nohup(1).
        let mut command = Command::new("env");
        command.args([
            "--default-signal",
            "setsid",
            "--wait",
            env!("CARGO_BIN_EXE_vmnoise"),
            "run",
            "--",
            "sh",
            "-c",
        ]);
        let mut child = command
            .arg(&script)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        // setsid(1) forks only if it is the leader of a group.
        let killed = Command::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
    }
}

#[test]
fn the_status_is_the_commands() {
    assert_eq!(status(&["--", "true"]), 0);
    assert_eq!(status(&["--", "sh", "-c", "exit 7"]), 7);
    assert_eq!(status(&["--", "sh", "-c", "kill -9 $$"]), 128 + 9);
    assert_eq!(status(&["--", "/nowhere"]), 127);
    assert_eq!(status(&["--", "/"]), 126);
    assert_eq!(status(&["--fit", "noise<x", "--", "true"]), 129);
    // The command's own failure takes precedence over the verdict.
    assert_eq!(
        status(&["--strict", "--fit", "noise<0.0001%", "--", "false"]),
        1
    );
}

#[test]
fn what_the_command_says_is_not_touched() {
    let output = vmnoise(&["--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(text(&output.stdout), "out\n");
    assert!(text(&output.stderr).starts_with("err\n"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result");
    let output = vmnoise(&[
        "-o",
        file.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "echo err >&2",
    ]);
    assert_eq!(text(&output.stderr), "err\n");
    assert!(fs::read_to_string(file).unwrap().contains("limit of"));
}

#[test]
fn a_tenant_without_rights_is_told_what_could_not_be_seen() {
    let output = without_rights(&["--strict", "--fit", "max<1s", "--", "true"]);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    for part in [
        "cannot tell: true",
        "CAP_BPF",
        "the kernel says of",
        "or more",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Bencher's format has measures only.
#[test]
fn what_hides_a_measure_from_bencher_is_on_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bmf.json");
    let words = ["--format", "bmf", "-o", file.to_str().unwrap()];
    let output = without_rights(&[&words[..], &["--", "true"]].concat());
    let said = text(&output.stderr);
    let is_reason =
        |line: &str| line.starts_with("vmnoise: not seen: ") && line.contains("CAP_BPF");
    assert!(said.lines().any(is_reason), "{said}");
    let metrics: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(metrics["true"]["latency"].is_object(), "{metrics}");
    assert!(metrics["true"]["noise"].is_null(), "{metrics}");
}

mod root {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const COUNT: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

    #[test]
    fn the_budget_adds_up_and_says_what_the_kernel_says() {
        let document = seen_whole(&["--", "sh", "-c", &format!("({COUNT}) & {COUNT}; wait")]);
        let run = &document["runs"][0];
        let budget = run["budget_ns"].as_object().unwrap();
        let ns = |part: &str| budget[part].as_u64().unwrap();
        let all: u64 = budget.values().map(|it| it.as_u64().unwrap()).sum();
        assert_eq!(Some(all), run["threads_wall_ns"].as_u64());
        assert_eq!(run["threads"], 2);
        let taken = ["waited", "throttled", "steal", "irq", "softirq", "nmi"];
        let taken: u64 = taken.into_iter().map(ns).sum();
        assert_eq!(run["taken_ns"], taken);
        let sources = run["sources"].as_array().unwrap();
        let tasks = sources.iter().filter(|it| it["share"] == "waited");
        let tasks: u64 = tasks.map(|it| it["total_ns"].as_u64().unwrap()).sum();
        let waits = run["waited_ns"].as_object().unwrap().values();
        let waits: u64 = waits.map(|it| it.as_u64().unwrap()).sum();
        assert_eq!(tasks + waits, ns("waited"), "{document}");
    }

    /// Number of attempts for a run in which all events must be seen: on some kernels a switch
    /// fires no event now and then (docs/design.md), and then the verdict is "cannot tell".
    const TRIES: usize = 5;
    /// In a virtual machine no run is fit without it. It polls for gaps in half of its time. For
    /// `max` this half must be longer than the run.
    const PREFLIGHT: [&str; 2] = ["--preflight", "1s"];

    /// Returns the document of a run in which no event was missed.
    fn seen_whole(arguments: &[&str]) -> Value {
        let is_whole = |it: &Value| {
            let runs = it["runs"].as_array().unwrap();
            runs.iter().all(|run| run["lost_events"] == 0)
        };
        let mut tries = (0..TRIES).map(|_| document(arguments));
        let whole = tries.find(is_whole);
        whole.expect("events were missed each time")
    }

    #[test]
    fn an_unfit_run_is_repeated_and_a_fit_one_is_not() {
        // Some switch or interrupt always takes a little time, but never a day.
        let unfit = [
            "--retry",
            "2",
            "--fit",
            "noise<0.0001%",
            "--",
            "sh",
            "-c",
            COUNT,
        ];
        let document = seen_whole(&unfit);
        assert_eq!(document["runs"].as_array().unwrap().len(), 3, "{document}");
        assert_eq!(document["verdict"], "unfit");
        let fit = [
            &PREFLIGHT[..],
            &["--retry", "2", "--fit", "max<1d", "--", "true"],
        ]
        .concat();
        let runs = self::document(&fit)["runs"].clone();
        assert_eq!(runs.as_array().unwrap().len(), 1);
        assert_eq!(runs[0]["verdict"], "fit", "{runs}");
    }

    #[test]
    fn strict_tells_by_the_status() {
        let unfit = [
            "--strict",
            "--fit",
            "noise<0.0001%",
            "--",
            "sh",
            "-c",
            COUNT,
        ];
        // The status is 3 if this kernel did not show how the program got its CPU.
        let told: Vec<_> = (0..TRIES).map(|_| status(&unfit)).collect();
        assert!(told.contains(&4), "{told:?}");
        assert!(told.iter().all(|it| [3, 4].contains(it)), "{told:?}");
        let fit = [
            &PREFLIGHT[..],
            &["--strict", "--fit", "max<1d", "--", "true"],
        ]
        .concat();
        assert_eq!(status(&fit), 0);
    }

    /// The preflight polls for gaps for 50 ms. On bare metal no hypervisor takes longer pieces.
    #[test]
    fn a_preflight_shorter_than_the_run_cannot_tell_the_longest_time() {
        let short = ["--preflight", "100ms", "--fit", "max<1d"];
        let document = seen_whole(&[&short[..], &["--", "sleep", "0.2"]].concat());
        let run = &document["runs"][0];
        let spots = run["blind_spots"].as_array().unwrap().iter();
        let reasons: Vec<&str> = spots.map(|it| it["reason"].as_str().unwrap()).collect();
        let is_bare_metal = reasons.contains(&"firmware");
        assert_ne!(is_bare_metal, reasons.contains(&"short_preflight"), "{run}");
        let verdict = match is_bare_metal {
            true => "fit",
            false => "cannot_tell",
        };
        assert_eq!(run["verdict"], verdict, "{run}");
    }

    #[test]
    fn bencher_reads_its_measures() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bmf.json");
        let words = [
            "--format",
            "bmf",
            "-o",
            file.to_str().unwrap(),
            "--",
            "true",
        ];
        vmnoise(&[&PREFLIGHT[..], &words].concat());
        let metrics: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        for measure in ["latency", "noise", "longest-noise"] {
            assert!(metrics["true"][measure]["value"].is_f64(), "{metrics}");
        }
    }

    /// As in a container with a CPU limit: the shell and its children are throttled.
    #[test]
    fn a_tenant_without_rights_is_told_of_the_quota_that_held_it_back() {
        if let Err(why) = Quota::is_there() {
            return skipped(&format!("{why:#}"));
        }
        let throttled = |percent: u32| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("run.json");
            // The shell waits until its quota is set.
            let mut command = Command::new("sh");
            let line = "read -r _; exec setpriv --bounding-set -all \"$@\"";
            command.args(["-c", line, "sh", env!("CARGO_BIN_EXE_vmnoise"), "run"]);
            let output = ["--format", "json", "-o", file.to_str().unwrap(), "--"];
            command.args(output).args(["sh", "-c", COUNT]);
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            let quota = Quota::of(child.id(), percent).unwrap();
            child.stdin.take().unwrap().write_all(b"\n").unwrap();
            assert!(child.wait().unwrap().success());
            drop(quota);
            let document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            document["runs"][0]["kernel"]["groups_throttled_ns"].as_u64()
        };
        // The shell counts for much longer than its 10 ms of each 100 ms. A quota of 400 is more
        // than one CPU, and one thread uses only one. The tests themselves may have a quota too.
        let (much, none) = (throttled(10).unwrap(), throttled(400).unwrap());
        assert!(much > 2 * none, "{much} ns, {none} ns");
    }

    /// All runs of the benchmark, ten or more, and all their processes belong to one command.
    #[test]
    fn hyperfines_line_is_of_all_its_runs() {
        let folder = tempfile::tempdir().unwrap();
        let bench = folder.path().join("bench");
        fs::write(&bench, format!("#!/bin/sh\necho >> ran\n{COUNT}\n")).unwrap();
        fs::set_permissions(&bench, fs::Permissions::from_mode(0o755)).unwrap();
        let output = by_a_shell(folder.path(), &documented("hyperfine"));
        assert!(text(&output.stdout).contains("Time (mean"), "{output:?}");
        let noise = fs::read(folder.path().join("noise.json")).unwrap();
        let noise: Value = serde_json::from_slice(&noise).unwrap();
        let ran = fs::read_to_string(folder.path().join("ran")).unwrap();
        let ran = ran.lines().count() as u64;
        assert!(ran >= 10, "{ran}");
        // hyperfine itself, and a process for each run.
        let threads = noise["runs"][0]["threads"].as_u64().unwrap();
        assert!(threads > ran, "{threads} of {ran}");
    }

    #[test]
    fn pytests_line_is_of_its_session() {
        let folder = tempfile::tempdir().unwrap();
        let test = "def test_sum(benchmark):\n    assert benchmark(sum, range(1000)) == 499500\n";
        fs::write(folder.path().join("test_sum.py"), test).unwrap();
        let output = by_a_shell(folder.path(), &documented("pytest"));
        assert!(text(&output.stdout).contains("test_sum"), "{output:?}");
        let noise = fs::read_to_string(folder.path().join("noise.txt")).unwrap();
        assert!(noise.contains(": pytest --benchmark-only: "), "{noise}");
        // It ran for at least the second that pytest-benchmark gives a benchmark.
        assert!(noise.contains("ran "), "{noise}");
    }

    /// The true rate is unknown here; but it is reported separately, and lies between 0 and 100 %.
    #[test]
    fn a_rate_is_in_no_figure_of_what_was_taken() {
        let document = document(&["--preflight", "100ms", "--", "sh", "-c", COUNT]);
        let cpus = document["preflight"].as_array().unwrap();
        // Shortest time that is accepted.
        assert!(status(&["--preflight", "10ms", "--", "true"]) == 0);
        for cpu in cpus {
            let lost = cpu["rate_lost_percent"].as_f64().unwrap();
            assert!((0.0..100.0).contains(&lost), "{cpu}");
        }
        assert!(!cpus.is_empty());
        let rate = &document["runs"][0]["rate"];
        if rate.is_null() {
            return eprintln!("this machine has no cycle counters");
        }
        assert!(rate["instructions_per_cycle"].as_f64().unwrap() > 0.0);
        let (best, had) = (&rate["best_frequency"], &rate["frequency"]);
        assert!(best.is_null() || best.as_f64() >= had.as_f64(), "{rate}");
    }
}

/// Returns the line of docs/run.md that runs this tool.
fn documented(tool: &str) -> String {
    let docs = include_str!("../../../docs/run.md");
    let fenced = docs.split("```").skip(1).step_by(2).map(str::trim);
    let mut lines = fenced.filter(|it| it.lines().count() == 1 && it.contains(tool));
    let line = lines
        .next()
        .unwrap_or_else(|| panic!("no line with {tool}"));
    assert_eq!(lines.next(), None, "{tool}");
    line.to_owned()
}

/// Runs this line in a shell in this folder, with this binary as `vmnoise`.
fn by_a_shell(folder: &Path, line: &str) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = Path::new(env!("CARGO_BIN_EXE_vmnoise")).parent().unwrap();
    let python = root.join("target/python");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", own.display(), python.join("bin").display());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder);
    let output = shell.env("PATH", path).env("PYTHONPATH", python).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    output
}

/// Test of the benchmark tool that compiles for minutes.
mod lab_full {
    mod newcomer {
        use super::super::*;

        #[test]
        fn criterions_line_is_of_its_benchmarks() {
            let folder = tempfile::tempdir().unwrap();
            let manifest = "[package]\nname = 'made'\nedition = '2024'\n[workspace]\n[lib]\npath = 'lib.rs'\n\
                 [dev-dependencies]\ncriterion = { version = '=0.8.2', default-features = false }\n\
                 [[bench]]\nname = 'bench'\npath = 'bench.rs'\nharness = false\n";
            let bench = "fn main() {\n    let mut criterion = criterion::Criterion::default();\n    \
                 criterion.bench_function(\"sum\", |it| it.iter(|| made::sum(std::hint::black_box(1000))));\n}\n";
            let lib = "pub fn sum(to: u64) -> u64 { (0..to).fold(0, |a, b| a ^ b.wrapping_mul(a | 1)) }\n";
            for (file, text) in [
                ("Cargo.toml", manifest),
                ("bench.rs", bench),
                ("lib.rs", lib),
            ] {
                fs::write(folder.path().join(file), text).unwrap();
            }
            let output = by_a_shell(folder.path(), &documented("cargo bench"));
            assert!(text(&output.stdout).contains("time:"), "{output:?}");
            let noise = fs::read_to_string(folder.path().join("noise.txt")).unwrap();
            assert!(noise.contains(": cargo bench: "), "{noise}");
            println!("{noise}");
        }
    }
}
