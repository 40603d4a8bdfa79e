//! Compares `vmnoise timerlat` with cyclictest of rt-tests. Both programs run one after the other,
//! and at the same time. This is done in a machine under virtual time, where the program is the
//! only difference, and on this machine.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::latencies::{LatencyHistogram, Turns};
use crate::bed::{DebianKernel, Lab};
use crate::installed::{LOADER, with_libraries};
use crate::run_to_end;

/// Number of runs of each program.
const ROUNDS: usize = 6;
/// Number of runs of `vmnoise` with BPF.
const WITNESSED: usize = 3;
/// Length of a run in seconds. The period of both tasks is 1 ms.
const SECONDS: usize = 2;
const PERIODS: usize = SECONDS * 1_000;
/// Number of rows of the histograms under virtual time. A row is 1 ns wide.
const REACH_NS: usize = 20_000;
/// Number of rows of the histograms on a real machine. A row is 1 us wide.
const REACH_US: usize = 10_000;

/// Results of the comparison in a lab under virtual time.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideCyclictest {
    /// `uname -r` of the lab's kernel.
    pub kernel_version: String,
    /// Runs of both programs one after the other, ours without BPF.
    pub turns: Turns,
    /// Median latency of our runs with BPF, nanoseconds.
    pub witnessed_ns: usize,
    /// Median distance between one of our runs with BPF and one run of cyclictest. Our runs are
    /// first shifted by the difference of the medians, so only a difference in shape remains.
    pub witnessed_distance: f64,
    /// Distance between both programs while they run at the same time on one CPU, without BPF.
    pub at_once: f64,
}

/// Boots a lab and compares both programs in it.
///
/// # Errors
/// If cyclictest is not installed, the lab fails, or its output cannot be read.
pub fn beside_cyclictest() -> Result<BesideCyclictest> {
    let mut lab = Lab::kernel(DebianKernel::Cloud).virtual_time(0);
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
    let read = |output: &crate::bed::CommandOutput| LatencyHistogram::parse(output.text()?, 1);
    let reported: Vec<LatencyHistogram> = report.outputs.iter().map(read).collect::<Result<_>>()?;
    let split = reported.split_at_checked(2 * ROUNDS);
    let (turns, rest) = split.context("a run is missing")?;
    let [witnessed @ .., ours_at_once, theirs_at_once] = rest else {
        bail!("{} outputs", reported.len());
    };
    let (theirs, ours) = in_turn(turns);
    let turns = Turns::of(&theirs, &ours);
    let witnessed_ns = LatencyHistogram::all(witnessed).median_ns();
    let moved = witnessed
        .iter()
        .map(|run| run.moved(witnessed_ns, turns.cyclictest_ns));
    let moved: Vec<LatencyHistogram> = moved.collect();
    Ok(BesideCyclictest {
        kernel_version: report.kernel_version.clone(),
        turns,
        witnessed_ns,
        witnessed_distance: Turns::of(&theirs, &moved).our_distance,
        at_once: theirs_at_once.distance(ours_at_once),
    })
}

/// Separates the runs of both programs, which alternate: the first is of cyclictest, the second is
/// ours.
fn in_turn(turns: &[LatencyHistogram]) -> (Vec<LatencyHistogram>, Vec<LatencyHistogram>) {
    let every_other = |first: usize| turns.iter().skip(first).step_by(2).cloned().collect();
    (every_other(0), every_other(1))
}

/// Results of the comparison on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HereBesideCyclictest {
    /// Runs one after the other on one CPU, ours without BPF.
    pub turns: Turns,
    /// Runs one after the other on one CPU, ours with BPF.
    pub witnessed: Turns,
    /// Distance between both programs while they run at the same time on one CPU each, ours without
    /// BPF. After half of the time, they swap CPUs.
    pub at_once: f64,
}

/// Compares both programs on these two CPUs of this machine.
///
/// # Errors
/// If cyclictest is not installed, a run fails, or its output cannot be read.
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
    let [theirs_at_once, ours_at_once] = at_once.map(|runs| LatencyHistogram::all(&runs));
    Ok(HereBesideCyclictest {
        turns: Turns::of(&theirs, &ours),
        witnessed: Turns::of(&theirs, &witnessed),
        at_once: theirs_at_once.distance(&ours_at_once),
    })
}

/// A running cyclictest.
struct Cyclictest(std::process::Child);

impl Cyclictest {
    fn start(cpu: u32) -> Result<Cyclictest> {
        let arguments = format!("-q -p95 -i1000 -l{PERIODS} -h {REACH_US} -t1 -a {cpu}");
        let mut command = Command::new("cyclictest");
        command.args(arguments.split(' ')).stdout(Stdio::piped());
        let child = command.spawn().context("cyclictest: install rt-tests")?;
        Ok(Cyclictest(child))
    }

    fn histogram(self) -> Result<LatencyHistogram> {
        let output = self.0.wait_with_output()?;
        ensure!(output.status.success(), "cyclictest: {}", output.status);
        LatencyHistogram::parse(str::from_utf8(&output.stdout)?, 1_000)
    }
}

fn timerlat(cpu: u32, options: &[&str]) -> Result<LatencyHistogram> {
    let fixed =
        format!("timerlat -c {cpu} -d {SECONDS} --format cyclictest --histogram {REACH_US}");
    let arguments: Vec<&str> = fixed.split(' ').chain(options.iter().copied()).collect();
    let output = run_to_end(&arguments)?;
    ensure!(output.status.success(), "timerlat: {}", output.status);
    LatencyHistogram::parse(str::from_utf8(&output.stdout)?, 1_000)
}
