//! `vmnoise timerlat` beside cyclictest of rt-tests: in turns and at once, in a machine under
//! virtual time, where nothing but the two differs, and on this one.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::latencies::{Histogram, Turns};
use crate::bed::{Kernel, Lab};
use crate::installed::{LOADER, with_libraries};
use crate::run_to_end;

/// How often each of the two takes its turn.
const ROUNDS: usize = 6;
/// Runs of ours with witnesses.
const WITNESSED: usize = 3;
/// Seconds, and periods of a millisecond.
const SECONDS: usize = 2;
const PERIODS: usize = SECONDS * 1_000;
/// Rows of the histograms under virtual time, nanoseconds.
const REACH_NS: usize = 20_000;
/// As `REACH_NS`, of a real machine, microseconds.
const REACH_US: usize = 10_000;

/// What a lab showed.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideCyclictest {
    /// `uname -r`.
    pub kernel_version: String,
    /// Without witnesses.
    pub turns: Turns,
    /// Median of ours with witnesses.
    pub witnessed_ns: usize,
    /// The median distance of one of those to one of cyclictest's, moved by the difference of
    /// all their medians: what is left is a difference in shape.
    pub witnessed_distance: f64,
    /// Between both at once, on one CPU, without witnesses.
    pub at_once: f64,
}

/// Boots a lab and compares.
///
/// # Errors
/// If cyclictest is not installed, or the lab fails or says what cannot be read.
pub fn beside_cyclictest() -> Result<BesideCyclictest> {
    let mut lab = Lab::kernel(Kernel::Cloud).virtual_time(0);
    for file in with_libraries("cyclictest", "rt-tests")? {
        lab = lab.program(&file);
    }
    let theirs = format!("{LOADER} /bin/cyclictest -q -N -p95 -i1000 -l{PERIODS} -h {REACH_NS}");
    let witnessed =
        format!("vmnoise timerlat -n -d {SECONDS} --format cyclictest --histogram {REACH_NS}");
    let ours = format!("{witnessed} --no-trace");
    let theirs_at_once = format!("&& {theirs}");
    let mut commands = [&*theirs, &*ours].repeat(ROUNDS);
    commands.extend([&*witnessed; WITNESSED]);
    commands.extend([&*theirs_at_once, &*ours]);
    let report = lab.run(&commands)?;
    let read = |output: &crate::bed::CommandOutput| Histogram::parse(output.text()?, 1);
    let reported: Vec<Histogram> = report.outputs.iter().map(read).collect::<Result<_>>()?;
    let split = reported.split_at_checked(2 * ROUNDS);
    let (turns, rest) = split.context("a run is missing")?;
    let [witnessed @ .., ours_at_once, theirs_at_once] = rest else {
        bail!("{} outputs", reported.len());
    };
    let (theirs, ours) = in_turn(turns);
    let turns = Turns::of(&theirs, &ours);
    let witnessed_ns = Histogram::all(witnessed).median_ns();
    let moved = witnessed
        .iter()
        .map(|run| run.moved(witnessed_ns, turns.cyclictest_ns));
    let moved: Vec<Histogram> = moved.collect();
    Ok(BesideCyclictest {
        kernel_version: report.kernel_version.clone(),
        turns,
        witnessed_ns,
        witnessed_distance: Turns::of(&theirs, &moved).our_distance,
        at_once: theirs_at_once.distance(ours_at_once),
    })
}

/// Every other one is cyclictest's, from the first on.
fn in_turn(turns: &[Histogram]) -> (Vec<Histogram>, Vec<Histogram>) {
    let every_other = |first: usize| turns.iter().skip(first).step_by(2).cloned().collect();
    (every_other(0), every_other(1))
}

/// What this machine showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HereBesideCyclictest {
    /// In turns on one CPU, without witnesses.
    pub turns: Turns,
    /// As `turns`, ours with witnesses.
    pub witnessed: Turns,
    /// Between both at once, each on a CPU of its own, which they change half-way; without
    /// witnesses.
    pub at_once: f64,
}

/// Compares on these two CPUs of this machine.
///
/// # Errors
/// If cyclictest is not installed, or a run fails or says what cannot be read.
pub fn here_beside_cyclictest(cpus: [u32; 2]) -> Result<HereBesideCyclictest> {
    let mut theirs = Vec::new();
    let mut ours = Vec::new();
    let mut witnessed = Vec::new();
    for _ in 0..ROUNDS {
        theirs.push(Cyclictest::start(cpus[1])?.histogram()?);
        ours.push(timerlat(cpus[1], &["--no-trace"])?);
        witnessed.push(timerlat(cpus[1], &[])?);
    }
    let mut at_once = [Vec::new(), Vec::new()];
    for (their_cpu, our_cpu) in [(cpus[0], cpus[1]), (cpus[1], cpus[0])] {
        let cyclictest = Cyclictest::start(their_cpu)?;
        at_once[1].push(timerlat(our_cpu, &["--no-trace"])?);
        at_once[0].push(cyclictest.histogram()?);
    }
    let [theirs_at_once, ours_at_once] = at_once.map(|runs| Histogram::all(&runs));
    Ok(HereBesideCyclictest {
        turns: Turns::of(&theirs, &ours),
        witnessed: Turns::of(&theirs, &witnessed),
        at_once: theirs_at_once.distance(&ours_at_once),
    })
}

/// One that runs.
struct Cyclictest(std::process::Child);

impl Cyclictest {
    fn start(cpu: u32) -> Result<Cyclictest> {
        let arguments = format!("-q -p95 -i1000 -l{PERIODS} -h {REACH_US} -t1 -a {cpu}");
        let mut command = Command::new("cyclictest");
        command.args(arguments.split(' ')).stdout(Stdio::piped());
        let child = command.spawn().context("cyclictest: install rt-tests")?;
        Ok(Cyclictest(child))
    }

    fn histogram(self) -> Result<Histogram> {
        let output = self.0.wait_with_output()?;
        ensure!(output.status.success(), "cyclictest: {}", output.status);
        Histogram::parse(str::from_utf8(&output.stdout)?, 1_000)
    }
}

fn timerlat(cpu: u32, options: &[&str]) -> Result<Histogram> {
    let fixed =
        format!("timerlat -c {cpu} -d {SECONDS} --format cyclictest --histogram {REACH_US}");
    let arguments: Vec<&str> = fixed.split(' ').chain(options.iter().copied()).collect();
    let output = run_to_end(&arguments)?;
    ensure!(output.status.success(), "timerlat: {}", output.status);
    Histogram::parse(str::from_utf8(&output.stdout)?, 1_000)
}
