//! `cargo bench -p vmnoise-testbed --bench self_noise`: noise that tracing adds to a CPU of this
//! machine. It compares `vmnoise` with `perf record` of the same events, in alternating runs. The
//! same reference poller measures the noise.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vmnoise_testbed::polled::PolledRun;
use vmnoise_testbed::{binary, lab_program};
use vmnoise_workload::tsc;

const CPU: &str = "1";
/// CPU on which the tracers' own threads run.
const ELSEWHERE: &str = "0";
const ROUNDS: usize = 7;
/// Length of a run in ms. In a longer run, real-time throttling would cause gaps.
const POLL_MS: &str = "800";
const THRESHOLD_NS: u64 = 1_000;
/// Time in ms that a tracer has to attach.
const SET_UP_MS: &str = "1500";
/// Events to which vmnoise attaches, if they happen on an idle machine. The end of irq_work is
/// missing: perf itself causes irq_work, so the kernel does not allow perf to trace it.
const EVENTS: &str = "sched:sched_switch,sched:sched_waking,\
    irq:irq_handler_entry,irq:irq_handler_exit,irq:softirq_entry,irq:softirq_exit,\
    irq_vectors:local_timer_entry,irq_vectors:local_timer_exit,\
    irq_vectors:reschedule_entry,irq_vectors:reschedule_exit,\
    irq_vectors:call_function_entry,irq_vectors:call_function_exit,\
    irq_vectors:call_function_single_entry,irq_vectors:call_function_single_exit";

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("vmnoise-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    println!("gaps of at least {THRESHOLD_NS} ns on CPU {CPU} in {POLL_MS} ms, alternating");
    println!(
        "{:<12} {:>8} {:>12} {:>14}",
        "", "gaps/s", "median ns", "noise us/s"
    );
    let mut medians_ns: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (peer, medians_ns) in [Peer::Nothing, Peer::Vmnoise, Peer::PerfRecord]
            .into_iter()
            .zip(&mut medians_ns)
        {
            match under(peer, &folder) {
                Ok(polled) => medians_ns.push(report(peer.name(), &polled)?),
                Err(error) => println!("{:<12} not measured: {error:#}", peer.name()),
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;

    let [nothing, vmnoise, perf] = medians_ns.map(|mut medians_ns| {
        medians_ns.sort_by(f64::total_cmp);
        medians_ns.get(medians_ns.len() / 2).copied()
    });
    let added = |tracer: Option<f64>| Some(tracer? - nothing?);
    let (Some(vmnoise), Some(perf)) = (added(vmnoise), added(perf)) else {
        return Ok(());
    };
    println!("added to the median gap: vmnoise {vmnoise:.0} ns, perf record {perf:.0} ns");
    println!("perf record adds {:.1} times as much", perf / vmnoise);
    Ok(())
}

#[derive(Clone, Copy)]
enum Peer {
    Nothing,
    Vmnoise,
    PerfRecord,
}

impl Peer {
    const fn name(self) -> &'static str {
        match self {
            Peer::Nothing => "nothing",
            Peer::Vmnoise => "vmnoise",
            Peer::PerfRecord => "perf record",
        }
    }

    /// Returns the command of the tracer; `None` for no tracer. The poller of vmnoise waits while
    /// the reference poller runs.
    fn command(self, folder: &Path) -> Option<Command> {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", ELSEWHERE]);
        match self {
            Peer::Nothing => return None,
            Peer::Vmnoise => {
                command = Command::new(binary());
                command.args(["osnoise", "--cpus", CPU, "--duration", "60s", "--quiet"]);
            }
            Peer::PerfRecord => {
                command.args(["perf", "record", "--quiet", "--cpu", CPU, "--output"]);
                command.arg(folder.join("perf.data"));
                command.args(["--event", EVENTS]);
            }
        }
        Some(command)
    }
}

/// Returns the gaps that the reference poller observed while this tracer ran.
fn under(peer: Peer, folder: &Path) -> Result<PolledRun> {
    let mut tracer = peer.command(folder).map(Tracer::start).transpose()?;
    let threshold = tsc::calibrate_hz(Duration::from_millis(50)) * THRESHOLD_NS / 1_000_000_000;
    let output = Command::new(lab_program("lab-poll")?)
        .args([CPU, &threshold.to_string(), POLL_MS, SET_UP_MS])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "lab-poll: {said}");
    if let Some(tracer) = &mut tracer {
        tracer.still_runs()?;
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Prints a run, and returns the median length of its gaps in ns.
fn report(name: &str, polled: &PolledRun) -> Result<f64> {
    let ns = |cycles: u64| cycles as f64 * 1e9 / polled.tsc_hz as f64;
    let median_ns = ns(polled.median_tsc().context("no gap at all")?);
    println!(
        "{name:<12} {:>8.0} {median_ns:>12.0} {:>14.0}",
        polled.gaps.len() as f64 / polled.seconds(),
        ns(polled.noise_tsc()) / 1e3 / polled.seconds()
    );
    Ok(median_ns)
}

/// A running tracer. It ends when this value is dropped.
struct Tracer(Child);

impl Tracer {
    fn start(mut command: Command) -> Result<Tracer> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn();
        let program = command.get_program().display();
        Ok(Tracer(
            child.with_context(|| format!("starting {program}"))?,
        ))
    }

    fn still_runs(&mut self) -> Result<()> {
        let ended = self.0.try_wait()?;
        ensure!(ended.is_none(), "the tracer ended early: {ended:?}");
        Ok(())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // The tracer may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
