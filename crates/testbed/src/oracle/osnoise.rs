//! Compares `vmnoise` with the osnoise tracer of PREEMPT_RT. First both observe the tracer's own
//! thread, so that they describe the same gaps. Then each runs alone.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::agreement::Agreement;
use super::gaps::Gaps;
use super::matching::{matching, median, on_our_clock};
use super::trace::{OsnoiseEventKind, OsnoiseLine, lines};
use crate::bed::{CommandOutput, DebianKernel, Lab};
use crate::lab_program;

/// Options that start the tracer with all of its events, for gaps of at least 1 us. The trace uses
/// CLOCK_MONOTONIC, as `vmnoise` does.
const TRACER: &str = "trace_clock=mono buffer_size_kb=16384 osnoise/cpus=0 tracing_thresh=1 \
                      events/osnoise/enable=1 current_tracer=osnoise";
const SHOW: &str = "lab-tracefs show";
const OURS: &str = "vmnoise explain --trace /tmp/run.vmn";
/// Length of each measurement in seconds.
const SECONDS: u64 = 1;

/// Results of the comparison in a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideKernel {
    /// `uname -r` of the lab's kernel.
    pub kernel_version: String,
    /// Length of the window that both traces cover, nanoseconds.
    pub window_ns: u64,
    /// Agreement of both traces over this window, by kind of event.
    pub agreements: Vec<Agreement>,
    /// Comparison of the gaps over this window.
    pub gaps: Gaps,
    /// Number of events that our run lost.
    pub lost_events: u64,
    /// Summary of the kernel's trace while only the kernel's tracer ran.
    pub kernel_alone: TracerTurn,
    /// Summary of our trace while only our poller ran.
    pub ours_alone: TracerTurn,
}

/// Summary of the trace of one tracer that ran alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracerTurn {
    /// Time from the first line to the last, nanoseconds.
    pub span_ns: u64,
    /// Number of lines of each kind.
    pub counts: Vec<(OsnoiseEventKind, usize)>,
    /// Number of lines of kind `Thread` that are for our own threads.
    pub own_turns: usize,
    /// Median duration of the tick, nanoseconds; `None` without ticks.
    pub tick_ns: Option<u64>,
    /// Sum of the lengths of all gaps, nanoseconds.
    pub noise_ns: u64,
}

impl BesideKernel {
    /// Returns the agreement on this kind of event; `None` if there is none.
    pub fn agreement(&self, kind: OsnoiseEventKind) -> Option<&Agreement> {
        self.agreements
            .iter()
            .find(|agreement| agreement.kind == kind)
    }
}

/// Injects NMIs while both tracers observe the thread of the kernel's tracer. Compares the number
/// and the length of the NMIs. Their times differ in each run, because they come from outside the
/// machine.
///
/// # Errors
/// If the lab fails, or its output cannot be read.
pub fn nmis() -> Result<Agreement> {
    let report = lab()?.program(&lab_program("lab-disturb")?).run(&[
        "& lab-disturb monitor vmnoise 10 100 nmi",
        &on_the_tracers_thread(),
        SHOW,
        OURS,
    ])?;
    report.outputs[0].text()?;
    let (kernel, ours) = (
        on_our_clock(read(&report.outputs[1])?),
        read(&report.outputs[2])?,
    );
    Ok(Agreement::of(
        OsnoiseEventKind::Nmi,
        &matching(&kernel, &ours),
    ))
}

/// Returns a lab in which an instruction takes 1 ns.
fn lab() -> Result<Lab> {
    let lab = Lab::kernel(DebianKernel::Rt).virtual_time(0);
    Ok(lab.program(&lab_program("lab-tracefs")?))
}

fn measure() -> String {
    format!("vmnoise osnoise --duration {SECONDS} --output /tmp/run.vmn --format json")
}

fn on_the_tracers_thread() -> String {
    format!(
        "lab-tracefs while {TRACER} -- {} --comm osnoise/0",
        measure()
    )
}

/// Boots a lab under virtual time, and compares both tracers in it.
///
/// # Errors
/// If the lab fails, or its output cannot be read.
pub fn beside_the_kernel() -> Result<BesideKernel> {
    let kernel_alone = format!("lab-tracefs for {SECONDS} {TRACER}");
    let report = lab()?.run(&[
        &on_the_tracers_thread(),
        SHOW,
        OURS,
        &kernel_alone,
        SHOW,
        &measure(),
        OURS,
    ])?;
    let [both, kernel, ours, kernel_ran, kernel_alone, _, ours_alone] = &report.outputs[..] else {
        bail!("{} outputs", report.outputs.len());
    };
    kernel_ran.text()?;
    let summary: Value = both.json()?;
    let (kernel, ours) = (on_our_clock(read(kernel)?), read(ours)?);
    let both = matching(&kernel, &ours);
    ensure!(
        both.window_ns > SECONDS * 800_000_000,
        "both saw the same {} ns only",
        both.window_ns
    );
    Ok(BesideKernel {
        kernel_version: report.kernel_version,
        window_ns: both.window_ns,
        agreements: OsnoiseEventKind::NOISE
            .map(|kind| Agreement::of(kind, &both))
            .to_vec(),
        gaps: Gaps::of(&kernel, &ours),
        lost_events: summary["lost_events"].as_u64().context("lost_events")?,
        kernel_alone: TracerTurn::of(&read(kernel_alone)?),
        ours_alone: TracerTurn::of(&read(ours_alone)?),
    })
}

fn read(output: &CommandOutput) -> Result<Vec<OsnoiseLine>> {
    lines(output.text()?)
}

impl TracerTurn {
    fn of(lines: &[OsnoiseLine]) -> TracerTurn {
        let starts = || lines.iter().map(|line| line.start_ns);
        let of_kind = |kind| lines.iter().filter(move |line| line.kind == kind);
        let ticks =
            of_kind(OsnoiseEventKind::Irq).filter(|line| line.name.starts_with("local_timer:"));
        TracerTurn {
            span_ns: starts().max().unwrap_or(0) - starts().min().unwrap_or(0),
            counts: OsnoiseEventKind::ALL
                .map(|kind| (kind, of_kind(kind).count()))
                .to_vec(),
            own_turns: of_kind(OsnoiseEventKind::Thread)
                .filter(|line| line.name.starts_with("vmnoise"))
                .count(),
            tick_ns: median(ticks.map(|line| line.dur_ns)),
            noise_ns: of_kind(OsnoiseEventKind::Sample)
                .map(|line| line.dur_ns)
                .sum(),
        }
    }
}
