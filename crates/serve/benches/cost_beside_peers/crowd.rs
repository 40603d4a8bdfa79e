//! Cost of `vmnoise serve` and node_exporter on a host with 100 VMs.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

const VMS: usize = 100;
/// Length of each measurement. [`SCRAPES`] is the number of scrapes in it. Prometheus scrapes once
/// a second only if it is configured to.
const LOOK: Duration = Duration::from_secs(30);
const SCRAPES: usize = 30;
/// Time in which all VMs have started.
const SET_UP: Duration = Duration::from_secs(10);

/// A running program. It ends when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Result<Running> {
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Running(command.spawn()?))
    }

    /// Returns the CPU time of the program so far: fields 14 and 15 of proc_pid_stat(5).
    fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let (_, fields) = stat.rsplit_once(") ").context("a stat without a name")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Duration::from_secs(1) * u32::try_from(ticks)?
            / rustix::param::clock_ticks_per_second() as u32)
    }

    /// Returns the largest memory of the program so far, in MiB: VmHWM of proc_pid_status(5).
    fn peak_mib(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.context("no VmHWM")?.trim().trim_end_matches(" kB");
        Ok(kib.parse::<f64>()? / 1024.0)
    }
}

pub(crate) fn print() -> Result<()> {
    println!(
        "{VMS} VMs of 2 vCPUs that run all the time at nice 19; scraped once a second for {LOOK:?}"
    );
    println!(
        "{:<16} {:>12} {:>14} {:>9} {:>12} {:>12} {:>10}",
        "", "% of a CPU", "its programs", "MiB", "scrape, ms", "worst, ms", "bytes"
    );
    let mut vms = Vec::new();
    for _ in 0..VMS {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(vmnoise_testbed::binary());
        command.args("microvm --exercise cpuid --cpus 0,1 --duration 600s".split(' '));
        vms.push(Running::start(&mut command)?);
    }
    sleep(SET_UP);
    let port = free_port()?;
    let listen = format!("127.0.0.1:{port}");
    let mut serve = Command::new(env!("CARGO_BIN_EXE_vmnoise-serve"));
    row("vmnoise serve", serve.args(["--listen", &listen]), port)?;
    let port = free_port()?;
    let listen = format!("--web.listen-address=127.0.0.1:{port}");
    let mut peer = Command::new("prometheus-node-exporter");
    row("node_exporter", peer.arg(listen), port)?;
    for vm in &mut vms {
        ensure!(vm.0.try_wait()?.is_none(), "a VM has ended");
    }
    Ok(())
}

fn row(what: &str, command: &mut Command, port: u16) -> Result<()> {
    let running = Running::start(command).with_context(|| what.to_owned())?;
    sleep(Duration::from_secs(3));
    let first = scrape(port)?;
    let (begin, cpu) = (Instant::now(), running.cpu()?);
    let mut times = Vec::new();
    let mut last = String::new();
    for _ in 0..SCRAPES {
        let start = Instant::now();
        last = scrape(port)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        sleep((LOOK / SCRAPES as u32).saturating_sub(start.elapsed()));
    }
    let wall = begin.elapsed().as_secs_f64();
    let cpu = (running.cpu()? - cpu).as_secs_f64();
    times.sort_unstable_by(f64::total_cmp);
    let probes = probes(&last).zip(probes(&first));
    let probes = probes.map_or_else(
        || "-".to_owned(),
        |(last, first)| format!("{:.3}", (last - first) / wall * 100.0),
    );
    println!(
        "{what:<16} {:>12.3} {probes:>14} {:>9.1} {:>12.1} {:>12.1} {:>10}",
        cpu / wall * 100.0,
        running.peak_mib()?,
        times[SCRAPES / 2],
        times[SCRAPES - 1],
        last.len(),
    );
    Ok(())
}

/// Returns the CPU time in seconds of the server's BPF programs, as the server reports it in
/// `metrics`.
fn probes(metrics: &str) -> Option<f64> {
    let name = "vmnoise_probe_seconds_total ";
    metrics
        .lines()
        .find_map(|line| line.strip_prefix(name))?
        .parse()
        .ok()
}

fn scrape(port: u16) -> Result<String> {
    vmnoise_testbed::metrics::scrape(&format!("127.0.0.1:{port}"))
}

/// Returns a port that is free at the moment.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
