//! Generates a recording of two CPUs with any number of gaps. Measures the time and the memory that
//! a command needs to read it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use vmnoise_events::{
    Activity, ActivityKind, Anchor, CpuTally, Event, Finish, FinishReason, Gap, MeasuringCommand,
    Source, SourceId, fixtures,
};
use vmnoise_recording::Writer;
use vmnoise_testbed::binary;

const CPUS: u32 = 2;
/// Time between two gaps of a CPU, nanoseconds.
const EVERY_NS: u64 = 60_000;
/// Number of gaps of which one is caused by a thread. This gap is longer than an interrupt's gap.
const ONE_IN: u64 = 1_000;
const BEGIN_NS: u64 = 1_000_000_000;

/// Runs `vmnoise` on a recording. Prints the time of this run, and the largest memory of any run so
/// far.
///
/// # Errors
/// If `vmnoise` cannot be run.
pub fn time(said: &str, words: &[&str], recording: &Path) -> Result<()> {
    let begun = Instant::now();
    let status = Command::new(binary())
        .args(words)
        .arg(recording)
        .stdout(Stdio::null())
        .status()
        .context("starting vmnoise")?;
    let took_s = begun.elapsed().as_secs_f64();
    let most_kib = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    println!(
        "{said}: {took_s:>6.2} s, at most {:>4} MiB ({status})",
        most_kib / 1_024
    );
    Ok(())
}

/// Writes a recording with this many gaps: interrupts of 1 to 5 us, and a few threads of 20 to 50
/// us.
///
/// # Errors
/// If the recording cannot be written.
pub fn generate(path: &Path, gaps: u64) -> Result<()> {
    let mut facts = fixtures::facts(MeasuringCommand::Osnoise);
    facts.options.cpus = (0..CPUS).collect();
    facts.options.threshold_ns = 1_000;
    let mut writer = Writer::create(path, &facts)?;
    for (id, name) in (0..).zip(["local_timer:236", "irqbalance:612"]) {
        let id = SourceId(id);
        let name = name.into();
        writer.push(&Event::Source(Source { id, name }))?;
    }
    let mut random = fastrand::Rng::with_seed(gaps);
    let of_each = gaps / u64::from(CPUS);
    for nth in 0..of_each {
        let now_ns = BEGIN_NS + nth * EVERY_NS;
        if nth % 1_000 == 0 {
            tell_time(&mut writer, now_ns)?;
        }
        for cpu in 0..CPUS {
            let scattered = random.u64(..1 << 24);
            let is_long = scattered.is_multiple_of(ONE_IN);
            let (kind, source, length_ns) = match is_long {
                true => (
                    ActivityKind::Thread,
                    SourceId(1),
                    20_000 + scattered % 30_000,
                ),
                false => (ActivityKind::Irq, SourceId(0), 1_000 + scattered % 4_000),
            };
            let start_mono_ns = now_ns + 1_000 + scattered % 5_000;
            let end_mono_ns = start_mono_ns + length_ns;
            writer.push(&Event::Activity(Activity {
                cpu,
                kind,
                start_mono_ns,
                end_mono_ns,
                source,
                steal_ns: 0,
            }))?;
            writer.push(&Event::Gap(Gap {
                cpu,
                // The gap also contains the time to enter and to leave the activity.
                start_tsc: start_mono_ns - 100,
                end_tsc: end_mono_ns + 100,
                steal_ns: 0,
                reloads: 0,
                light_exits: 0,
                heavy_exits: 0,
                interference: None,
                run_delay_ns: 0,
            }))?;
        }
    }
    let mono_ns = BEGIN_NS + of_each * EVERY_NS;
    tell_time(&mut writer, mono_ns)?;
    let reason = FinishReason::Duration;
    writer.push(&Event::Finish(Finish { reason, mono_ns }))?;
    writer.finish()?;
    Ok(())
}

fn tell_time(writer: &mut Writer<std::fs::File>, mono_ns: u64) -> Result<()> {
    writer.push(&Event::Anchor(Anchor {
        before_tsc: mono_ns,
        mono_ns,
        after_tsc: mono_ns,
    }))?;
    for cpu in 0..CPUS {
        writer.push(&Event::Tally(CpuTally {
            cpu,
            first_tsc: BEGIN_NS,
            last_tsc: mono_ns,
            blind_tsc: Some(0),
            ..CpuTally::default()
        }))?;
    }
    writer.push(&Event::Watermark(mono_ns))?;
    Ok(())
}
