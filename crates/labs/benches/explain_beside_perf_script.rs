//! `cargo bench -p vmnoise-labs --bench explain_beside_perf_script`: events a second
//! and peak memory of `vmnoise explain` and `vmnoise report` on a generated recording of
//! 10 million events, and events a second of `perf script` on scheduler events.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vmnoise_events::{
    Activity, ActivityKind, Anchor, ClockFacts, ClockSource, Event, Finish, FinishReason, Gap,
    HostFacts, Options, RunFacts, Source, SourceId, Witnesses, Workload,
};
use vmnoise_labs::binary;
use vmnoise_recording::Writer;

const EVENTS: u64 = 10_000_000;
/// Three activities in each gap.
const GAPS: u64 = EVENTS / 4;
const GAP_EVERY_NS: u64 = 20_000;
const PERF_SWITCHES: u64 = 500_000;

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("vmnoise-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let recording = folder.join("generated.vmn");
    generate(&recording)?;
    println!(
        "recording of {EVENTS} events: {} MB",
        std::fs::metadata(&recording)?.len() / 1_000_000
    );
    let page = folder.join("report.html");
    for _ in 0..3 {
        let (elapsed, peak_kib) = time(Command::new(binary()).arg("explain").arg(&recording))?;
        report("vmnoise explain", EVENTS, elapsed);
        println!("{:>16} {:>10} MiB at most", "", peak_kib / 1024);
        let mut command = Command::new(binary());
        command.arg("report").arg(&recording).arg("-o").arg(&page);
        let (elapsed, peak_kib) = time(&mut command)?;
        report("vmnoise report", EVENTS, elapsed);
        println!(
            "{:>16} {:>10} MiB at most, a page of {} kB",
            "",
            peak_kib / 1024,
            std::fs::metadata(&page)?.len() / 1000
        );
    }
    match perf_script(&folder) {
        Ok((events, elapsed)) => report("perf script", events, elapsed),
        Err(error) => println!("perf script: not measured: {error:#}"),
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn report(name: &str, events: u64, elapsed: Duration) {
    let per_second = events as f64 / elapsed.as_secs_f64() / 1e6;
    println!(
        "{name:>16} {events:>10} events in {:>6.2} s: {per_second:.2} million/s",
        elapsed.as_secs_f64()
    );
}

fn time(command: &mut Command) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .spawn()
        .context("starting vmnoise")?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    loop {
        if let Ok(status) = std::fs::read_to_string(&status_file) {
            peak_kib = peak_kib.max(high_water_kib(&status));
        }
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "vmnoise: {status}");
            return Ok((start.elapsed(), peak_kib));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn high_water_kib(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|value| value.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

fn perf_script(folder: &Path) -> Result<(u64, Duration)> {
    let data = folder.join("perf.data");
    let recorded = Command::new("perf")
        .args([
            "record",
            "--quiet",
            "--all-cpus",
            "--event",
            "sched:sched_switch",
            "--output",
        ])
        .arg(&data)
        .args([
            "--",
            "perf",
            "bench",
            "sched",
            "pipe",
            "--loop",
            &PERF_SWITCHES.to_string(),
        ])
        .output()
        .context("starting perf (package linux-perf)")?;
    ensure!(
        recorded.status.success(),
        "{}",
        String::from_utf8_lossy(&recorded.stderr)
    );
    let start = Instant::now();
    let script = Command::new("perf")
        .args(["script", "--input"])
        .arg(&data)
        .output()?;
    let elapsed = start.elapsed();
    ensure!(
        script.status.success(),
        "{}",
        String::from_utf8_lossy(&script.stderr)
    );
    Ok((
        script.stdout.iter().filter(|byte| **byte == b'\n').count() as u64,
        elapsed,
    ))
}

fn generate(path: &Path) -> Result<()> {
    let mut writer = Writer::create(path, &facts())?;
    let sources = ["local_timer:236", "SCHED:7", "stress-ng:4711"];
    for (id, name) in (0..).zip(sources) {
        writer.push(&Event::Source(Source {
            id: SourceId(id),
            name: name.into(),
        }))?;
    }
    let anchor = |mono_ns: u64| Anchor {
        before_tsc: mono_ns,
        mono_ns,
        after_tsc: mono_ns,
    };
    for gap in 0..GAPS {
        let start = 1_000_000 + gap * GAP_EVERY_NS;
        let kinds = [
            ActivityKind::Irq,
            ActivityKind::Softirq,
            ActivityKind::Thread,
        ];
        for (offset, kind) in (0..).zip(kinds) {
            let start_mono_ns = start + 1_000 + u64::from(offset) * 2_000;
            writer.push(&Event::Activity(Activity {
                cpu: 1,
                kind,
                start_mono_ns,
                end_mono_ns: start_mono_ns + 1_500 + gap % 400,
                source: SourceId(offset),
                steal_ns: 0,
            }))?;
        }
        writer.push(&Event::Gap(Gap {
            cpu: 1,
            start_tsc: start,
            end_tsc: start + 9_000,
            steal_ns: 1_900,
            reloads: 1,
            light_exits: 1,
            heavy_exits: 0,
            interference: None,
        }))?;
        if gap % 1_000 == 999 {
            let now = start + GAP_EVERY_NS - 1_000;
            writer.push(&Event::Anchor(anchor(now)))?;
            writer.push(&Event::Watermark(now))?;
        }
    }
    let mono_ns = 1_000_000 + GAPS * GAP_EVERY_NS;
    writer.push(&Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns,
    }))?;
    writer.finish()?;
    Ok(())
}

fn facts() -> RunFacts {
    RunFacts {
        tool_version: "bench".into(),
        workload: Workload::Microvm,
        started_at: "2026-01-01T00:00:00Z".into(),
        options: Options {
            cpus: vec![1],
            duration_ns: GAPS * GAP_EVERY_NS,
            threshold_ns: 1_000,
            period_ns: 1_000_000_000,
            priority: None,
            top: 10,
            stop_ns: None,
            stop_total_ns: None,
            runtime_ns: None,
            trace: true,
            observed: Vec::new(),
            exits: None,
            timer: None,
        },
        host: HostFacts::default(),
        clock: ClockFacts {
            source: ClockSource::Tsc,
            tsc_hz: 1_000_000_000,
            offset_proof: None,
            offset_tsc: 0,
            offset_bound_tsc: 0,
            bracket_tsc: 0,
        },
        witnesses: Witnesses {
            irq: true,
            softirq: true,
            nmi: true,
            sched: true,
            kvm_run: true,
            kvm_exit: true,
            steal_clock: true,
            activity_steal: false,
            timer: false,
        },
        rungs: Vec::new(),
        shares_cpu: false,
        rdtsc_cycles: 30,
    }
}
