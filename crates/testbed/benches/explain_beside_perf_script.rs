//! `cargo bench -p vmnoise-testbed --bench explain_beside_perf_script`: events per second, CPU time
//! and peak memory of `vmnoise explain` and `vmnoise report` with a generated recording of 10
//! million events. It also measures the events per second of `perf script` with scheduler events.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod generated;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use generated::{EVENTS, generate};
use vmnoise_testbed::binary;

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
        let taken = time(Command::new(binary()).arg("explain").arg(&recording))?;
        report("vmnoise explain", EVENTS, taken.elapsed);
        println!("{:>16} {taken}", "");
        let mut command = Command::new(binary());
        command.arg("report").arg(&recording).arg("-o").arg(&page);
        let taken = time(&mut command)?;
        report("vmnoise report", EVENTS, taken.elapsed);
        println!(
            "{:>16} {taken}, a page of {} kB",
            "",
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

/// Time and peak memory that a process used.
struct Taken {
    elapsed: Duration,
    cpu: Duration,
    peak_kib: u64,
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (cpu_s, peak_mib) = (self.cpu.as_secs_f64(), self.peak_kib / 1024);
        write!(f, "{cpu_s:>10.2} s of CPU, {peak_mib} MiB at most")
    }
}

fn time(command: &mut Command) -> Result<Taken> {
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .spawn()
        .context("starting vmnoise")?;
    let status_file = format!("/proc/{}/status", child.id());
    let stat_file = format!("/proc/{}/stat", child.id());
    let (mut peak_kib, mut cpu) = (0, Duration::ZERO);
    loop {
        // The times of an ended process can be read until its parent waits for it.
        if let Ok(stat) = std::fs::read_to_string(&stat_file) {
            cpu = cpu_time(&stat);
        }
        if let Ok(status) = std::fs::read_to_string(&status_file) {
            peak_kib = peak_kib.max(high_water_kib(&status));
        }
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "vmnoise: {status}");
            let elapsed = start.elapsed();
            return Ok(Taken {
                elapsed,
                cpu,
                peak_kib,
            });
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

/// Returns the sum of user and system time, which are fields 14 and 15 of the text. Field 2 is a
/// name in brackets, and may contain spaces.
fn cpu_time(stat: &str) -> Duration {
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = behind_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32
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
