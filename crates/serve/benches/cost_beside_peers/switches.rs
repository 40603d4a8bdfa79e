//! Time that the programs at `sched_switch` take for each switch, as the kernel counts it
//! (/proc/sys/kernel/bpf_stats_enabled).

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vmnoise_labs::{Disturber, Run, schedstat};

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// How long each is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// By then a tracer has attached its programs.
const SET_UP: Duration = Duration::from_secs(5);
/// The CPU that is switched on.
const CPU: u32 = 1;
/// Each switch is entered, and nothing done.
const EMPTY: &str = "rawtracepoint:sched_switch { }";
/// Where Debian's bpftrace has its tools.
const RUNQLAT: &str = "/usr/sbin/runqlat.bt";

/// The kernel counts what BPF programs cost, for as long as this lives.
struct Counted(String);

impl Counted {
    fn begin() -> Result<Counted> {
        let before = fs::read_to_string(STATS).context(STATS)?;
        fs::write(STATS, "1").context(STATS)?;
        Ok(Counted(before))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = fs::write(STATS, &self.0);
    }
}

/// A program of one's own; it ends when dropped.
struct Tracer(Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What programs have cost.
#[derive(Clone, Copy)]
struct Cost {
    runs: f64,
    ns: f64,
}

impl Cost {
    fn since(self, before: Cost) -> Cost {
        Cost {
            runs: self.runs - before.runs,
            ns: self.ns - before.ns,
        }
    }
}

/// Switches with a vCPU on one side, and without.
struct Measured {
    /// Of tasks alone, in ns.
    without: f64,
    /// With a vCPU, in ns.
    with: f64,
    /// Of two tasks that wake each other, in a second.
    per_second: f64,
}

pub(crate) fn print() -> Result<()> {
    let _counted = Counted::begin()?;
    let serve = [
        env!("CARGO_BIN_EXE_vmnoise-serve"),
        "--listen",
        "127.0.0.1:0",
    ];
    let perf = [
        "perf",
        "sched",
        "record",
        "--quiet",
        "--output",
        "/dev/null",
        "--",
        "sleep",
        "1000",
    ];
    println!(
        "what is at sched_switch: ns of each switch as the kernel counts them (bpf_stats_enabled),"
    );
    println!(
        "with a vCPU that is preempted or comes back, and of other tasks; switches that two of these make\n"
    );
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9} {:>12}",
        "", "other", "beyond", "vCPU", "beyond", "switches/s"
    );
    let nothing = switches_per_second()?;
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9} {nothing:>12.0}",
        "nothing", "-", "-", "-", "-"
    );
    let empty = row(
        "an empty program (bpftrace)",
        &["bpftrace", "-e", EMPTY],
        None,
    )?;
    row("vmnoise serve", &serve, Some(&empty))?;
    row("runqlat of bpftrace", &["bpftrace", RUNQLAT], Some(&empty))?;
    let _perf = start(&perf)?;
    let per_second = switches_per_second()?;
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9} {per_second:>12.0}",
        "perf sched record", "-", "-", "-", "-"
    );
    Ok(())
}

fn row(what: &str, command: &[&str], empty: Option<&Measured>) -> Result<Measured> {
    let measured = measured(command).context(what.to_owned())?;
    let beyond = |ours: f64, of: fn(&Measured) -> f64| {
        empty.map_or_else(
            || "-".to_owned(),
            |empty| format!("{:+.0}", ours - of(empty)),
        )
    };
    println!(
        "{what:<34} {:>9.0} {:>9} {:>9.0} {:>9} {:>12.0}",
        measured.without,
        beyond(measured.without, |it| it.without),
        measured.with,
        beyond(measured.with, |it| it.with),
        measured.per_second,
    );
    Ok(measured)
}

fn measured(command: &[&str]) -> Result<Measured> {
    let before = programs()?;
    let before: BTreeSet<u64> = before.iter().filter_map(id).collect();
    let _tracer = start(command)?;
    let cost = || -> Result<Cost> {
        let all = programs()?;
        let ours = all.iter().filter(|program| {
            let is_new = id(program).is_some_and(|id| !before.contains(&id));
            is_new && is_at_switch(program)
        });
        let sum = |key: &str| {
            let numbers = ours.clone().filter_map(|program| program[key].as_f64());
            numbers.sum()
        };
        Ok(Cost {
            runs: sum("run_cnt"),
            ns: sum("run_time_ns"),
        })
    };
    let (others, per_second) = {
        let storm = Disturber::storm(CPU)?;
        sleep(Duration::from_secs(1));
        let (begin, cpu) = (cost()?, schedstat_of(&storm)?);
        sleep(LOOK);
        let switches = 2 * (schedstat_of(&storm)? - cpu);
        (cost()?.since(begin), switches as f64 / LOOK.as_secs_f64())
    };
    ensure!(others.runs > 0.0, "no program of it is at sched_switch");
    let without = others.ns / others.runs;
    let with = {
        let run = Run::microvm(CPU, &["--duration", "60s"])?;
        let tid = run.vcpu_tid()?;
        let log = std::env::temp_dir().join(format!("vmnoise-bench-{}", std::process::id()));
        let (burst, every) = (Duration::from_micros(5), Duration::from_micros(200));
        let turns = Disturber::turns(CPU, burst, every, &log)?;
        sleep(Duration::from_secs(1));
        let begin = (cost()?, schedstat::read(run.pid(), tid)?.slices);
        sleep(LOOK);
        let slices = schedstat::read(run.pid(), tid)?.slices - begin.1;
        let all = cost()?.since(begin.0);
        drop((turns, run));
        let _ = fs::remove_file(log);
        // It comes and goes once in each slice; the rest are others.
        let its = 2.0 * slices as f64;
        (all.ns - (all.runs - its) * without) / its
    };
    Ok(Measured {
        without,
        with,
        per_second,
    })
}

fn switches_per_second() -> Result<f64> {
    let storm = Disturber::storm(CPU)?;
    sleep(Duration::from_secs(1));
    let begin = schedstat_of(&storm)?;
    sleep(LOOK);
    Ok(2.0 * (schedstat_of(&storm)? - begin) as f64 / LOOK.as_secs_f64())
}

/// How often one of the two tasks has had the CPU.
fn schedstat_of(storm: &Disturber) -> Result<u64> {
    Ok(storm.schedstat()?.slices)
}

fn start(command: &[&str]) -> Result<Tracer> {
    let child = Command::new(command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| command[0].to_owned())?;
    let mut tracer = Tracer(child);
    sleep(SET_UP);
    let ended = tracer.0.try_wait()?;
    ensure!(ended.is_none(), "{command:?} has ended: {ended:?}");
    Ok(tracer)
}

fn programs() -> Result<Vec<Value>> {
    let output = Command::new("bpftool")
        .args(["-j", "prog", "show"])
        .output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn id(program: &Value) -> Option<u64> {
    program["id"].as_u64()
}

fn is_at_switch(program: &Value) -> bool {
    program["name"]
        .as_str()
        .is_some_and(|name| name.contains("sched_switch"))
}
