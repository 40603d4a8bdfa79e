//! The test tiers, in the order in which they run.
//! A tier is a part of the test names: `engine::` needs packages of PyPI, `processor::` one of
//! npm and `node` as well, `root::` and `bpf_run::` need BPF,
//! `kvm::` needs /dev/kvm as well, `tmux::` all of that and tmux, `browse::` needs Chromium
//! and pdftotext,
//! `lab::` and `virtual_time::` need QEMU; everything else runs anywhere. `lab_full::` needs more of
//! these, and is a command of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::abilities::{
    Ability, can_bootstrap, can_browse, can_contain, can_emulate, can_multiplex, can_reach,
    can_render, can_run_java, can_run_ranks, can_trace, can_virtualize, has_trace_processor,
    installed,
};
use crate::libtest::{self, Times};
use crate::tally::{Skip, Tally};
use crate::{
    cargo, checks, failures, linted, machine, oracle, programs, run, run_command, side_by_side,
    supply,
};

/// A variable of the environment and its value.
type Setting = (&'static str, &'static str);

/// How many streams the budget law is tried with: in the gate, and in daily work.
const STREAMS: Setting = ("PROPTEST_CASES", "100000");
const FEW_STREAMS: Setting = ("PROPTEST_CASES", "5000");
/// How long inputs are searched for that break something.
const FUZZ_SECONDS: Setting = ("VMNOISE_FUZZ_SECONDS", "60");

/// Tiers that need something. Their tests run one at a time, but for those that nothing beside them
/// can disturb: what is computed from recordings, drawn by a browser, given to a BPF program with its
/// times (BPF_PROG_RUN), or in virtual time.
const NEEDY: [&str; 10] = [
    "engine::",
    "processor::",
    "bpf_run::",
    "root::",
    "kvm::",
    "lab::",
    "lab_full::",
    "virtual_time::",
    "browse::",
    "tmux::",
];

/// Builds what the tiers drive, runs every tier this machine can, and prints one closing line.
pub fn run_all() -> Result<()> {
    let mut tally = Tally::default();
    supply(&mut tally)?;
    build_all()?;
    units(linted::command(), &mut tally, &programs::ALL)?;
    law(linted::command(), &mut tally, STREAMS)?;
    let fuzz = of_units("search::");
    tier(
        linted::command(),
        &mut tally,
        "fuzz",
        &fuzz,
        &["--nocapture"],
        Some(FUZZ_SECONDS),
    )?;
    let engines = installed(&oracle::ENGINES);
    side_by_side_tier(&mut tally, "engine", &engines)?;
    let processor = engines.and_then(|()| has_trace_processor());
    side_by_side_tier(&mut tally, "processor", &processor)?;
    side_by_side_tier(&mut tally, "browse", &can_browse())?;
    let root = can_trace();
    side_by_side_tier(&mut tally, "bpf_run", &root)?;
    if root.is_ok() {
        oracle::install(&["pyarrow", oracle::OPENTELEMETRY, oracle::BENCHMARK])?;
    }
    serial_tier(&mut tally, "root", &root)?;
    let kvm = root.and_then(|()| can_virtualize());
    serial_tier(&mut tally, "kvm", &kvm)?;
    serial_tier(&mut tally, "tmux", &kvm.and_then(|()| can_multiplex()))?;
    serial_tier(&mut tally, "lab", &can_emulate())?;
    side_by_side_tier(&mut tally, "virtual_time", &can_emulate())?;
    close(tally)
}

/// What daily work needs: no binary that is optimized, and nothing that a machine may lack.
pub fn run_units() -> Result<()> {
    let mut tally = Tally::default();
    let plain = || Command::new(cargo());
    units(plain(), &mut tally, &programs::UNITS)?;
    law(plain(), &mut tally, FEW_STREAMS)?;
    close(tally)
}

fn units(cargo: Command, tally: &mut Tally, programs: &[&str]) -> Result<()> {
    let others: Vec<&str> = NEEDY.iter().flat_map(|name| ["--skip", name]).collect();
    tier(cargo, tally, "unit", programs, &others, None)
}

fn law(cargo: Command, tally: &mut Tally, streams: Setting) -> Result<()> {
    tier(
        cargo,
        tally,
        "law",
        &of_units("budget_law::"),
        &[],
        Some(streams),
    )
}

/// Those tests that need nothing and have this in their names.
fn of_units(filter: &str) -> Vec<&str> {
    [&programs::UNITS[..], &[filter]].concat()
}

/// Runs vmnoise in the kernels of every suite of Debian that can be had, and prints
/// one closing line.
pub fn run_lab_full() -> Result<()> {
    let mut tally = Tally::default();
    build_binary()?;
    serial_tier(&mut tally, "lab::own_suite", &can_emulate())?;
    serial_tier(&mut tally, "lab_full::own_suite", &can_emulate())?;
    serial_tier(&mut tally, "lab_full::large", &can_emulate())?;
    serial_tier(&mut tally, "additions::lab_full", &Ok(()))?;
    serial_tier(&mut tally, "lab_full::files", &Ok(()))?;
    serial_tier(&mut tally, "lab_full::loggopsim", &Ok(()))?;
    serial_tier(&mut tally, "lab_full::newcomer", &can_bootstrap())?;
    let service = can_bootstrap().and_then(|()| can_emulate());
    serial_tier(&mut tally, "lab_full::service", &service)?;
    let engines = [&oracle::ENGINES[..], &oracle::MORE_ENGINES].concat();
    let engines = installed(&engines).and_then(|()| can_run_java());
    serial_tier(&mut tally, "lab_full::engines", &engines)?;
    let ranks = can_trace().and_then(|()| can_run_ranks());
    serial_tier(&mut tally, "lab_full::mpi", &ranks)?;
    let kvm = can_trace().and_then(|()| can_virtualize());
    serial_tier(&mut tally, "lab_full::hosts", &kvm)?;
    let dashboard = can_trace().and_then(|()| installed(&[oracle::GRAFANA]));
    serial_tier(&mut tally, "lab_full::dashboard", &dashboard)?;
    serial_tier(&mut tally, "lab_full::kubernetes", &can_render())?;
    let containers = kvm.and_then(|()| can_contain());
    serial_tier(&mut tally, "lab_full::containers", &containers)?;
    for suite in ["trixie", "trixie-backports"] {
        let name = format!("lab_full::{}", suite.replace('-', "_"));
        let ability = can_emulate().and_then(|()| can_reach(suite));
        serial_tier(&mut tally, &name, &ability)?;
    }
    close(tally)
}

/// No tests of libtest, and counted like them.
fn supply(tally: &mut Tally) -> Result<()> {
    const TIER: &str = "supply";
    println!("== tier {TIER}");
    let begun = Instant::now();
    for (test, check) in supply::CHECKS {
        match check().context(test)? {
            Ok(()) => tally.add(&libtest::Result {
                passed: 1,
                ..libtest::Result::default()
            }),
            Err(reason) => {
                println!("skipped {test}: {reason}");
                tally.skipped(Skip {
                    tier: TIER.to_owned(),
                    test: test.to_owned(),
                    reason,
                });
            }
        }
    }
    tally.took(TIER, begun.elapsed(), Vec::new());
    Ok(())
}

/// What others wrote, and nothing else.
pub fn run_supply() -> Result<()> {
    let mut tally = Tally::default();
    supply(&mut tally)?;
    close(tally)
}

fn close(tally: Tally) -> Result<()> {
    let in_ci = std::env::var("CI").is_ok_and(|word| word == "true");
    tally.close(in_ci, |it| {
        machine::must_run(&it.tier, &it.test, machine::has)
    })
}

/// The binary beside the documentation and the tests: each ends with crates that keep one CPU for
/// long, and they are built in folders of their own, so that none waits for another's.
fn build_all() -> Result<()> {
    std::thread::scope(|scope| {
        let binary = scope.spawn(build_binary);
        let others = checks::documentation().and_then(|()| build_tests());
        let binary = binary.join().unwrap_or_else(|_| bail!("cargo build"));
        others.and(binary)
    })
}

fn build_tests() -> Result<()> {
    let arguments = ["build", "--quiet", "--workspace", "--all-targets"];
    run_command(linted::command().args(arguments))
}

fn build_binary() -> Result<()> {
    run(
        &cargo(),
        &["build", "--quiet", "--release", "--package", "vmnoise"],
    )
}

/// Tests that change or load the machine run one at a time. What they print (kernel
/// versions, ratios) is part of the result.
fn serial_tier(tally: &mut Tally, name: &str, ability: &Ability) -> Result<()> {
    let filter = format!("{name}::");
    match ability {
        Ok(()) => tier(
            linted::command(),
            tally,
            name,
            &[&programs::ALL[..], &[&filter]].concat(),
            &["--test-threads=1", "--nocapture", "--format=pretty"],
            None,
        ),
        Err(reason) => skip(tally, name, reason),
    }
}

/// Tests that nothing beside them can disturb, as many at a time as this machine has CPUs.
fn side_by_side_tier(tally: &mut Tally, name: &str, ability: &Ability) -> Result<()> {
    if let Err(reason) = ability {
        return skip(tally, name, reason);
    }
    println!("== tier {name}");
    let begun = Instant::now();
    let tests = side_by_side::run(&format!("{name}::"))?;
    let times = tests.iter().map(|test| (test.took, test.name.clone()));
    tally.took(name, begun.elapsed(), times.collect());
    ensure!(
        !tests.is_empty(),
        "tier {name} ran no test: the filter no longer matches any name"
    );
    for test in &tests {
        let before = (tally.ran(), tally.failed());
        count(tally, &test.stdout);
        ensure!(
            tally.ran() > before.0 && (test.passed || tally.failed() > before.1),
            "{} ended without a result, or died with one",
            test.name
        );
        report_of(tally, name, &test.stdout, &test.stderr);
    }
    Ok(())
}

fn skip(tally: &mut Tally, name: &str, reason: &str) -> Result<()> {
    let tests = list(&format!("{name}::"))?;
    println!("== tier {name}: {} tests skipped: {reason}", tests.len());
    for test in tests {
        println!("skipped {test}");
        tally.skipped(Skip {
            tier: name.to_owned(),
            test,
            reason: reason.to_owned(),
        });
    }
    Ok(())
}

/// How many passed and failed.
fn count(tally: &mut Tally, stdout: &[String]) {
    for result in stdout
        .iter()
        .filter_map(|line| libtest::Result::reported(line))
    {
        tally.add(&result);
    }
}

/// What tests said of themselves: why they failed, that they were skipped, that a lab was booted
/// once more.
fn report_of(tally: &mut Tally, tier: &str, stdout: &[String], stderr: &[String]) {
    let again = stdout
        .iter()
        .filter(|line| line.contains("lab booted once more"));
    tally.booted_again += again.count();
    tally.failures.extend(failures::repeated(stdout, stderr));
    for (test, reason) in stderr.iter().filter_map(|line| libtest::skipped(line)) {
        tally.skipped_itself(Skip {
            tier: tier.to_owned(),
            test: test.to_owned(),
            reason: reason.to_owned(),
        });
    }
}

fn tier(
    cargo: Command,
    tally: &mut Tally,
    name: &str,
    cargo_arguments: &[&str],
    test_arguments: &[&str],
    setting: Option<Setting>,
) -> Result<()> {
    println!("== tier {name}");
    let begun = Instant::now();
    let mut command = cargo;
    command
        .args(["test", "--quiet", "--no-fail-fast"])
        .args(cargo_arguments)
        .arg("--")
        .args(test_arguments);
    command.envs(setting);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting cargo test")?;
    let stdout = child.stdout.take().context("the output of cargo test")?;
    let stderr = child.stderr.take().context("the output of cargo test")?;
    let stderr = std::thread::spawn(|| passed_on(stderr, |line| eprintln!("{line}")));
    let mut times = Times::default();
    let stdout = passed_on(stdout, |line| {
        times.line(begun.elapsed(), line);
        println!("{line}");
    });
    let stderr = stderr.join().unwrap_or_default();
    let status = child.wait()?;
    tally.took(name, begun.elapsed(), times.each);
    let before = tally.ran();
    count(tally, &stdout);
    if !status.success() && tally.failed() == 0 {
        bail!("tier {name} did not run: cargo test ended with {status}");
    }
    if tally.ran() == before {
        bail!("tier {name} ran no test: the filter no longer matches any name");
    }
    report_of(tally, name, &stdout, &stderr);
    Ok(())
}

/// All lines of an output, each shown as it comes.
fn passed_on(output: impl Read, mut show: impl FnMut(&str)) -> Vec<String> {
    let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.inspect(|line| show(line)).collect()
}

fn list(filter: &str) -> Result<Vec<String>> {
    let output = linted::command()
        .args(["test", "--quiet"])
        .args(programs::ALL)
        .args([filter, "--", "--list"])
        .output()
        .context("listing tests")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}
