//! Measures the time that programs at `sched_switch` take per switch. The kernel counts this time
//! (/proc/sys/kernel/bpf_stats_enabled).

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vmnoise_testbed::{Disturber, VmnoiseRun, schedstat};

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Length of each measurement.
const LOOK: Duration = Duration::from_secs(5);
/// Time in which a tracer has attached its programs.
const SET_UP: Duration = Duration::from_secs(5);
/// CPU on which the tasks switch.
const CPU: u32 = 1;
/// bpftrace program that does nothing at each switch.
const EMPTY: &str = "tracepoint:sched:sched_switch { }";
/// Path of a bpftrace program that measures the wait of each task.
const RUN_QUEUE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/cost_beside_peers/run_queue.bt"
);

/// Makes the kernel count the cost of BPF programs until this value is dropped.
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

/// A running tracer. It ends when this value is dropped.
struct Tracer(Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Cost of a tracer's programs in ns, and the number of switches in the same time.
#[derive(Clone, Copy)]
struct Cost {
    at_switch_ns: f64,
    ns: f64,
    switches: f64,
}

impl Cost {
    fn since(self, before: Cost) -> Cost {
        Cost {
            at_switch_ns: self.at_switch_ns - before.at_switch_ns,
            ns: self.ns - before.ns,
            switches: self.switches - before.switches,
        }
    }
}

/// Cost of one switch in ns. `all` is the cost of all programs.
#[derive(Clone, Copy)]
struct PerSwitch {
    all: f64,
    at_switch: f64,
}

struct Measured {
    /// Cost of a switch between ordinary tasks.
    without: PerSwitch,
    /// Cost of a switch to or from a vCPU.
    with: PerSwitch,
    /// Number of switches per second between two tasks that wake each other.
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
        "what BPF programs add to a switch, ns as the kernel counts them (bpf_stats_enabled): of a vCPU that is"
    );
    println!(
        "preempted or comes back, and of other tasks; and how often two tasks switched that wake each other"
    );
    println!(
        "{:<38} {:>7} {:>8} {:>7} {:>8} {:>12}",
        "", "other", "beyond", "vCPU", "beyond", "switches/s"
    );
    row("nothing", None, None, switches_per_second()?);
    let empty = measured(&["bpftrace", "-e", EMPTY]).context("an empty program")?;
    let of = |measured: &Measured| (measured.without.all, measured.with.all);
    let nothing = of(&empty);
    row(
        "an empty one at each (bpftrace)",
        Some(nothing),
        None,
        empty.per_second,
    );
    let ours = measured(&serve).context("vmnoise serve")?;
    let at_switch = (ours.without.at_switch, ours.with.at_switch);
    row(
        "vmnoise serve, that at each switch",
        Some(at_switch),
        Some(nothing),
        ours.per_second,
    );
    row(
        "vmnoise serve, with those at wake-ups",
        Some(of(&ours)),
        Some(nothing),
        ours.per_second,
    );
    let peer = measured(&["bpftrace", RUN_QUEUE]).context("bpftrace")?;
    row(
        "runqlat by bpftrace, all of it",
        Some(of(&peer)),
        Some(nothing),
        peer.per_second,
    );
    let _perf = start(&perf)?;
    row("perf sched record", None, None, switches_per_second()?);
    Ok(())
}

/// Prints a row of the table. `ns` has the cost of a switch between ordinary tasks, and of a switch
/// to or from a vCPU.
fn row(what: &str, ns: Option<(f64, f64)>, empty: Option<(f64, f64)>, per_second: f64) {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.0}"));
    let beyond = |ours: Option<f64>, empty: Option<f64>| {
        let beyond = ours.zip(empty).map(|(ours, empty)| ours - empty);
        beyond.map_or("-".to_owned(), |it| format!("{it:+.0}"))
    };
    let (other, vcpu) = (ns.map(|it| it.0), ns.map(|it| it.1));
    println!(
        "{what:<38} {:>7} {:>8} {:>7} {:>8} {per_second:>12.0}",
        number(other),
        beyond(other, empty.map(|it| it.0)),
        number(vcpu),
        beyond(vcpu, empty.map(|it| it.1)),
    );
}

fn measured(command: &[&str]) -> Result<Measured> {
    let ids = || -> Result<BTreeSet<u64>> { Ok(programs()?.iter().filter_map(id).collect()) };
    let before = ids()?;
    let _tracer = start(command)?;
    // The VM that is started below has its own programs.
    let ours: BTreeSet<u64> = ids()?.difference(&before).copied().collect();
    let cost = || -> Result<Cost> {
        let all = programs()?;
        let is_ours = |program: &&Value| id(program).is_some_and(|id| ours.contains(&id));
        let ours: Vec<&Value> = all.iter().filter(is_ours).collect();
        let ns = |program: &&&Value| program["run_time_ns"].as_f64();
        let at_switch = ours.iter().filter(|it| it["name"] == "sched_switch");
        Ok(Cost {
            at_switch_ns: at_switch.filter_map(|it| ns(&it)).sum(),
            ns: ours.iter().filter_map(|it| ns(&it)).sum(),
            switches: switches()?,
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
    ensure!(others.ns > 0.0, "no program of it ran");
    let without = PerSwitch {
        all: others.ns / others.switches,
        at_switch: others.at_switch_ns / others.switches,
    };
    let with = {
        let run = VmnoiseRun::microvm(CPU, &["--duration", "60s"])?;
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
        // The vCPU is switched in and out once in each slice. All other switches are between
        // ordinary tasks.
        let its = 2.0 * slices as f64;
        let rest = all.switches - its;
        PerSwitch {
            all: (all.ns - rest * without.all) / its,
            at_switch: (all.at_switch_ns - rest * without.at_switch) / its,
        }
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

/// Returns how often one of the two tasks got the CPU.
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

/// Returns the number of switches of the whole machine since boot: `ctxt` of proc_stat(5).
fn switches() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    Ok(line.context("no ctxt in /proc/stat")?.parse()?)
}
