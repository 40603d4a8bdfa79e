//! Tests of `vmnoise check` as a user runs it.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::join_pair::{Flaws, write_guest, write_host, write_tasks};

/// Returns a guest's recordings of gaps and wake-ups, and its host's.
fn recordings() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_guest(&folder.path().join("gaps.vmn"));
    write_tasks(&folder.path().join("tasks.vmn"));
    write_host(&folder.path().join("host.vmn"), Flaws::default());
    folder
}

fn check_with(folder: &TempDir, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path()).arg("check").args(words);
    command.envs(variables.iter().copied()).output().unwrap()
}

fn check(folder: &TempDir, line: &str) -> Output {
    let words: Vec<&str> = line.split_whitespace().collect();
    check_with(folder, &words, &[])
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[test]
fn the_status_says_what_the_verdict_is() {
    let folder = recordings();
    // The longest gaps are 62.986 us.
    for (line, status, verdict) in [
        ("gaps.vmn --max 63us", 0, "PASS"),
        ("gaps.vmn --max 62us", 2, "FAIL"),
        ("gaps.vmn --p99.999 63us", 3, "CANNOT TELL"),
        ("gaps.vmn --limit hw=1%", 3, "CANNOT TELL"),
        ("gaps.vmn --limit hw=1% --max 62us", 2, "FAIL"),
        ("gaps.vmn --duration 1h", 3, "CANNOT TELL"),
        ("tasks.vmn --max 64us", 0, "PASS"),
        ("tasks.vmn --max 60us", 2, "FAIL"),
    ] {
        let output = check(&folder, line);
        assert_eq!(output.status.code(), Some(status), "{line}: {output:?}");
        let said = text(&output.stdout);
        assert!(said.starts_with(&format!("{verdict}: ")), "{line}: {said}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn the_verdict_is_left_beside_the_recording() {
    let folder = recordings();
    let printed = check(&folder, "gaps.vmn --max 62us --p99.999 1s --format json").stdout;
    let left = fs::read(folder.path().join("gaps.vmn.verdict.json")).unwrap();
    assert_eq!(left, printed);
    let verdict: Value = serde_json::from_slice(&left).unwrap();
    assert_eq!(verdict["schema"], "vmnoise.verdict/1");
    assert_eq!(verdict["verdict"], "fail");
    assert_eq!(verdict["run"]["workload"], "spin");
    let [max, percentile] = &verdict["limits"].as_array().unwrap()[..] else {
        panic!("{verdict}");
    };
    assert_eq!(
        (&max["figure"], &max["unit"]),
        (&"max".into(), &"ns".into())
    );
    assert_eq!(
        (&max["value"], &max["at_most"]),
        (&62_986.0.into(), &62_000.0.into())
    );
    assert_eq!(max["reasons"][0]["reason"], "above");
    let blamed = max["blame"].as_array().unwrap().iter();
    let ns: u64 = blamed.map(|it| it["ns"].as_u64().unwrap()).sum();
    assert_eq!(ns, 62_986, "{max}");
    assert_eq!(percentile["verdict"], "cannot_tell");
    assert_eq!(percentile["reasons"][0]["reason"], "too_few");
    assert!(
        verdict["ask_for_ns"].as_u64().unwrap() > verdict["run"]["length_ns"].as_u64().unwrap()
    );
}

#[test]
fn what_the_command_line_limits_counts_before_a_file_and_that_before_the_environment() {
    let folder = recordings();
    fs::write(
        folder.path().join("budget.yaml"),
        "max: 62us\ngaps: 1000000\n",
    )
    .unwrap();
    let variables = [
        ("OSLAT_MAXIMUM_LATENCY", "1"),
        ("CYCLICTEST_MAXIMUM_LATENCY", "70"),
    ];
    let status = |words: &[&str]| check_with(&folder, words, &variables).status.code();
    assert_eq!(status(&["gaps.vmn", "--cnf"]), Some(2));
    assert_eq!(status(&["tasks.vmn", "--cnf"]), Some(0));
    assert_eq!(status(&["gaps.vmn", "--budget", "budget.yaml"]), Some(2));
    assert_eq!(
        status(&[
            "gaps.vmn",
            "--budget",
            "budget.yaml",
            "--cnf",
            "--max",
            "63us"
        ]),
        Some(0)
    );
}

#[test]
fn a_checkups_config_map_goes_in_and_comes_out() {
    let folder = recordings();
    let map = |us: &str| {
        format!(
            "kind: ConfigMap\ndata:\n  spec.timeout: 1m\n  spec.param.oslatDuration: 1ms\n  spec.param.oslatLatencyThresholdMicroSeconds: \"{us}\"\n"
        )
    };
    // The recordings are short, and the checkup requires five minutes by default.
    for (us, status, succeeded) in [("63", 0, "true"), ("62", 2, "false")] {
        fs::write(folder.path().join("map.yaml"), map(us)).unwrap();
        let output = check(&folder, "gaps.vmn --budget map.yaml --format config-map");
        assert_eq!(output.status.code(), Some(status));
        let patch: Value = serde_json::from_slice(&output.stdout).unwrap();
        let data = &patch["data"];
        assert_eq!(data["status.succeeded"], succeeded);
        assert_eq!(data["status.failureReason"] == "", status == 0, "{data}");
        assert_eq!(data["status.result.oslatMaxLatencyMicroSeconds"], "63");
        // A guest's recording hides its hypervisor's time, whatever the verdict is.
        let reasons = data["status.result.vmnoiseReasons"].as_str().unwrap();
        assert!(reasons.contains("measure on the host"), "{data}");
        assert_eq!(data["status.startTimestamp"], "2026-01-01T00:00:00Z");
    }
}

/// Python's XML parser gives a second opinion.
#[test]
fn junit_counts_what_failed_and_what_nobody_can_tell() {
    const COUNT: &str = "
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.stdin).getroot().find('testsuite')
kinds = [[kind.tag for kind in case if kind.tag in ('failure', 'error')] for case in suite.iter('testcase')]
print(suite.get('tests'), suite.get('failures'), suite.get('errors'), kinds)
";
    let folder = recordings();
    let output = check(
        &folder,
        "gaps.vmn --max 62us --p99 1s --p99.999 1s --limit gaps=1000000 --format junit",
    );
    fs::write(folder.path().join("verdict.xml"), &output.stdout).unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", COUNT]);
    python.stdin(fs::File::open(folder.path().join("verdict.xml")).unwrap());
    let counted = python.output().unwrap();
    assert_eq!(
        text(&counted.stdout),
        "5 1 2 [[], ['failure'], ['error'], ['error'], []]\n",
        "{counted:?} {}",
        text(&output.stdout)
    );
}

#[test]
fn annotations_and_signals_are_a_line_each() {
    let folder = recordings();
    let line = "gaps.vmn --max 62us --limit gaps=1000000 --limit hw=1%";
    let github = check(&folder, &format!("{line} --format github")).stdout;
    let commands: Vec<&str> = text(&github)
        .lines()
        .map(|it| it.split_once("::").unwrap().1)
        .collect();
    let kinds: Vec<&str> = commands
        .iter()
        .map(|it| it.split(' ').next().unwrap())
        .collect();
    assert_eq!(kinds, ["error", "notice", "warning"], "{commands:?}");
    let lava = check(&folder, &format!("{line} --format lava")).stdout;
    let signals = text(&lava).lines().filter(|it| it.starts_with('<'));
    let lines: Vec<&str> = signals.collect();
    assert_eq!(
        [lines[0], lines[2], lines[3]],
        [
            "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=vmnoise-max RESULT=fail MEASUREMENT=62986 UNITS=ns>",
            "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=vmnoise-hw RESULT=unknown>",
            "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=vmnoise RESULT=fail>",
        ]
    );
}

#[test]
fn what_cannot_be_checked_is_refused_with_what_can() {
    let folder = recordings();
    fs::write(folder.path().join("wrong.yaml"), "steel: 1%\n").unwrap();
    for (line, status, why) in [
        (
            "gaps.vmn",
            129,
            "no limit is given; write a limit such as --max 40us",
        ),
        ("host.vmn --max 1us", 129, "host.vmn is of `vmnoise exits`"),
        (
            "tasks.vmn --limit steal=1%",
            129,
            "has no `steal`: limit max and percentiles",
        ),
        ("nothing.vmn --max 1us", 1, "nothing.vmn"),
        (
            "gaps.vmn --limit steel=1%",
            129,
            "there is no figure `steel`",
        ),
        (
            "gaps.vmn --budget wrong.yaml",
            129,
            "wrong.yaml: there is no figure `steel`",
        ),
        (
            "gaps.vmn --budget none.yaml",
            1,
            "cannot read the budget none.yaml",
        ),
    ] {
        let output = check(&folder, line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{line}: {said}"
        );
        assert!(output.stdout.is_empty());
    }
    let variables = [("MAXIMUM_LATENCY", "fast")];
    let output = check_with(&folder, &["gaps.vmn", "--cnf"], &variables);
    assert_eq!(output.status.code(), Some(129));
    assert!(
        text(&output.stderr).contains("MAXIMUM_LATENCY=fast"),
        "{output:?}"
    );
}

/// With its host's recording, a guest's shows who took its time; alone it does not.
#[test]
fn a_guest_is_judged_by_what_its_host_saw() {
    let folder = recordings();
    let line = "--limit preempted=1% --limit host_irq=1% --format json";
    let judged = |files: &str, limits: &str| {
        let output = check(&folder, &format!("{files} {limits}"));
        assert!(output.stderr.is_empty(), "{output:?}");
        let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), verdict)
    };
    let (status, alone) = judged("gaps.vmn", line);
    assert_eq!((status, &alone["verdict"]), (3, &"cannot_tell".into()));
    assert_eq!(alone["limits"][0]["value"], Value::Null);
    let (status, joined) = judged("gaps.vmn host.vmn", line);
    assert_eq!(
        (status, &joined["verdict"]),
        (0, &"pass".into()),
        "{joined}"
    );
    assert_eq!(joined["run"]["file"], "gaps.vmn joined with host.vmn");
    // 30.257 us of each long exit; there are some thirty in a second.
    let preempted = joined["limits"][0]["value"].as_f64().unwrap();
    assert!((0.05..0.2).contains(&preempted), "{joined}");
    let by = |who: &str, limit: &str| {
        let words = [
            "gaps.vmn",
            "host.vmn",
            "--limit",
            &format!("preempted by {who}={limit}"),
        ];
        check_with(&folder, &words, &[]).status.code()
    };
    assert_eq!(by("ksoftirqd*", "1%"), Some(0));
    // A limit of 0 is exceeded even if the bound between the clocks is subtracted.
    assert_eq!(by("ksoftirqd*", "0%"), Some(2));
    // Time of the guest's steal clock is now attributed to culprits, but does not become less.
    let steal = |limit: &str| {
        judged(
            "gaps.vmn host.vmn",
            &format!("--limit steal={limit} --format json"),
        )
        .0
    };
    assert_eq!((steal("1%"), steal("0.01%")), (0, 3));
    // The host's recording does not change the guest's own figures.
    let of_guest =
        |files: &str| judged(files, "--max 62us --limit p50=1ms --format json").1["limits"].clone();
    assert_eq!(
        of_guest("gaps.vmn")[0]["value"],
        of_guest("gaps.vmn host.vmn")[0]["value"]
    );
    let (status, tasks) = judged("tasks.vmn host.vmn", "--max 60us --format json");
    assert_eq!(status, 2);
    let blamed = tasks["limits"][0]["blame"].as_array().unwrap();
    assert!(
        blamed.iter().any(|it| it["share"] == "preempted"),
        "{tasks}"
    );
}

#[test]
fn a_guest_is_not_judged_by_a_host_of_others() {
    let folder = recordings();
    let off = Flaws {
        offset_tsc: 5_000_000,
        ..Flaws::default()
    };
    write_host(&folder.path().join("off.vmn"), off);
    for (line, status, why) in [
        ("gaps.vmn off.vmn --max 1us", 1, "does not agree"),
        ("gaps.vmn gaps.vmn --max 1us", 129, "host"),
        (
            "host.vmn gaps.vmn --max 1us",
            129,
            "host.vmn is of `vmnoise exits`",
        ),
    ] {
        let output = check(&folder, line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        assert!(
            said.contains(why) && said.lines().count() == 1,
            "{line}: {said}"
        );
        assert!(output.stdout.is_empty());
    }
}

mod root {
    use std::path::Path;

    use super::*;

    const DEFINITION: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/lava/vmnoise.yaml"
    );

    /// Runs the steps of LAVA's test definition as a dispatcher's shell does, which ends at the
    /// first failure.
    #[test]
    fn the_steps_of_lavas_definition_measure_and_signal() {
        let definition = fs::read_to_string(DEFINITION).unwrap();
        let definition = &yaml_rust2::YamlLoader::load_from_str(&definition).unwrap()[0];
        let steps = definition["run"]["steps"].as_vec().unwrap().iter();
        let steps: Vec<&str> = steps.map(|step| step.as_str().unwrap()).collect();
        let folder = tempfile::tempdir().unwrap();
        let run = |limits: &str| {
            let mut shell = Command::new("sh");
            shell
                .current_dir(folder.path())
                .args(["-ec", &steps.join("\n")]);
            for (name, value) in definition["params"].as_hash().unwrap() {
                shell.env(name.as_str().unwrap(), value.as_str().unwrap());
            }
            let programs = Path::new(env!("CARGO_BIN_EXE_vmnoise")).parent().unwrap();
            let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
            shell
                .env("PATH", path)
                .env("DURATION", "1s")
                .env("LIMITS", limits);
            shell.output().unwrap()
        };
        for (limits, result) in [
            ("--max 60s", "pass"),
            ("--max 0", "fail"),
            ("--limit p99.999=60s", "unknown"),
        ] {
            let output = run(limits);
            let last = text(&output.stdout).lines().last();
            let signal = format!("<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=vmnoise RESULT={result}>");
            assert_eq!(last, Some(&*signal), "{output:?}");
            assert!(output.status.success(), "{output:?}");
        }
        assert!(!run("--max soon").status.success());
    }
}
