//! `cargo bench -p vmnoise-testbed --bench gaps_beside_sysjitter`: checks that `vmnoise osnoise`
//! misses no gap that the plain loop of sysjitter finds. Two pollers on one CPU would cause gaps
//! for each other. So each poller is compared with known events: timer interrupts in a lab under
//! virtual time, and logged bursts on this machine.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vmnoise_events::{Event, Gap};
use vmnoise_recording::RecordingReader;
use vmnoise_testbed::bed::{DebianKernel, Lab};
use vmnoise_testbed::polled::PolledRun;
use vmnoise_testbed::{Burst, Disturber, VmnoiseRun, lab_program};

const CPU: u32 = 1;
const BURSTS_HZ: u32 = 97;
const BURST: Duration = Duration::from_micros(50);
const BURSTS: usize = 150;

fn main() -> Result<()> {
    let mut missed = in_the_lab()?;
    missed += on_this_machine()?;
    println!("missed in all: {missed}");
    ensure!(missed == 0, "{missed} gaps were missed");
    Ok(())
}

/// Compares the number of gaps in a lab with the number of ticks. The tick comes every 4 ms of
/// virtual time, and nothing else disturbs a poller with a higher priority than all tasks. So the
/// number of gaps is the number of ticks that fit into the poller's runtime, or one more. Returns
/// the number of missed gaps.
fn in_the_lab() -> Result<u64> {
    const TICK_NS: u64 = 4_000_000;
    let reference = "lab-poll 0 1000 200 100";
    // With one CPU, the tool's own threads run only while the kernel throttles the tool's poller.
    // So the tool's end waits for such a time.
    let ours = "vmnoise osnoise --cpus 0 --priority f:49 --duration 200ms --format json";
    let report = Lab::kernel(DebianKernel::Cloud)
        .virtual_time(0)
        .program(&lab_program("lab-poll")?)
        .run(&[reference, ours])?;
    let polled: PolledRun = serde_json::from_str(&report.outputs[0].stdout)?;
    let summary: Value = serde_json::from_str(&report.outputs[1].stdout)
        .with_context(|| report.outputs[1].stderr.clone())?;
    let cpu = &summary["cpus"][0];
    let number = |key: &str| cpu[key].as_u64().with_context(|| key.to_owned());
    println!(
        "gaps of at least 1 us in virtual time, {}",
        report.kernel_version
    );
    let reference_ns = polled.end_tsc - polled.begin_tsc;
    let felt = [
        ("plain loop", polled.gaps.len() as u64, reference_ns),
        ("vmnoise", number("gaps")?, number("runtime_ns")?),
    ];
    let mut missed = 0;
    for (who, gaps, runtime_ns) in felt {
        let ticks = runtime_ns / TICK_NS;
        println!("{who:>12} {gaps:>8} gaps, {ticks} ticks in {runtime_ns} ns");
        missed += ticks.saturating_sub(gaps);
    }
    Ok(missed)
}

/// Checks that each burst of a task with a higher priority than both pollers lies in a gap. Returns
/// the number of missed bursts.
fn on_this_machine() -> Result<u64> {
    println!(
        "{BURSTS} bursts of {BURST:?} on CPU {CPU}, and how many of them lie in a gap of at least 1 us"
    );
    let folder = std::env::temp_dir().join(format!("vmnoise-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;

    let (log, polled) = beside_bursts(&folder, || {
        let output = Command::new(lab_program("lab-poll")?)
            .args([&CPU.to_string(), "2000", "2500", "0"])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "lab-poll: {said}");
        Ok(serde_json::from_slice::<PolledRun>(&output.stdout)?)
    })?;
    let gaps: Vec<_> = polled
        .gaps
        .iter()
        .map(|gap| (gap.start_tsc, gap.end_tsc))
        .collect();
    let span = (polled.begin_tsc, polled.end_tsc);
    let by_reference = missed("plain loop", &log, span, &gaps)?;

    let recording = folder.join("gaps.vmn");
    let (log, gaps) = beside_bursts(&folder, || {
        let path = recording.to_str().context("a path that is not UTF-8")?;
        let arguments = ["osnoise", "--cpus", "1", "--duration", "3s", "--priority"];
        let more = ["f:49", "--format", "json", "--output", path];
        VmnoiseRun::start(&[&arguments[..], &more[..]].concat())?.summary()?;
        gaps_of(&recording)
    })?;
    let first = gaps.first().context("no gap at all")?.start_tsc;
    let last = gaps.last().context("no gap at all")?.end_tsc;
    let gaps: Vec<_> = gaps
        .iter()
        .map(|gap| (gap.start_tsc, gap.end_tsc))
        .collect();
    let by_vmnoise = missed("vmnoise", &log, (first, last), &gaps)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(by_reference + by_vmnoise)
}

/// Runs a poller during the bursts. Returns the log of the bursts, and the result of the poller.
fn beside_bursts<T>(folder: &Path, poll: impl FnOnce() -> Result<T>) -> Result<(Vec<Burst>, T)> {
    let log = folder.join("bursts");
    let bursts = Disturber::bursts(CPU, BURSTS_HZ, BURST, BURSTS, &log)?;
    let felt = poll()?;
    Ok((bursts.into_log()?, felt))
}

fn gaps_of(recording: &Path) -> Result<Vec<Gap>> {
    let mut gaps = Vec::new();
    RecordingReader::open(recording)?.for_each(&mut |event| {
        if let Event::Gap(gap) = event {
            gaps.push(*gap);
        }
    })?;
    Ok(gaps)
}

/// Prints how many of the bursts within `span` lie in a gap. Returns how many bursts do not.
fn missed(who: &str, log: &[Burst], span: (u64, u64), gaps: &[(u64, u64)]) -> Result<u64> {
    let within = |burst: &&Burst| span.0 <= burst.begin_tsc && burst.end_tsc <= span.1;
    let felt = |burst: &Burst| {
        // The gaps are sorted, and do not overlap.
        let next = gaps.partition_point(|gap| gap.1 < burst.end_tsc);
        gaps.get(next).is_some_and(|gap| gap.0 <= burst.begin_tsc)
    };
    let bursts: Vec<&Burst> = log.iter().filter(within).collect();
    let found = bursts.iter().filter(|burst| felt(burst)).count();
    let missed = bursts.len() - found;
    ensure!(!bursts.is_empty(), "no burst while {who} polled");
    println!(
        "{who:>12} {:>8} gaps, {found} of {} bursts within its time, missed {missed}",
        gaps.len(),
        bursts.len()
    );
    Ok(missed as u64)
}
