//! Compares `vmnoise timerlat` with the timerlat tracer of PREEMPT_RT. A task of each tracer runs
//! on the same CPU at the same time, with the same period and priority. Each wake-up of the
//! kernel's task is paired with our wake-up nearest in time.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::matching::median;
use crate::bed::{CommandOutput, DebianKernel, Lab};
use crate::lab_program;

const PERIOD_NS: u64 = 1_000_000;
/// Time for which both tasks run, in seconds.
const SECONDS: u64 = 2;
/// Options that start the kernel's tracer. The trace uses CLOCK_MONOTONIC, as `vmnoise` does.
const TRACER: &str = "trace_clock=mono buffer_size_kb=16384 osnoise/cpus=0 \
                      osnoise/timerlat_period_us=1000 current_tracer=timerlat";

/// One wake-up as one of the two tracers reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Reported {
    expiry_ns: u64,
    irq_ns: Option<u64>,
    thread_ns: Option<u64>,
}

/// Comparison of all pairs in one context: the timer's interrupt, or the task's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextAgreement {
    /// Median latency of the kernel's wake-ups, nanoseconds.
    pub kernel_median_ns: u64,
    /// Median latency of our wake-ups, nanoseconds.
    pub our_median_ns: u64,
    /// Median of the differences within the pairs, nanoseconds.
    pub median_distance_ns: u64,
}

/// Results of the comparison in a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideTimerlat {
    /// `uname -r` of the lab's kernel.
    pub kernel_version: String,
    /// Number of wake-ups of the kernel's task in the window that both traces cover.
    pub kernel: usize,
    /// Number of these wake-ups that have a pair. Both contexts of both wake-ups must be known.
    pub matched: usize,
    /// Comparison of the latencies until the timer's interrupt.
    pub irq: ContextAgreement,
    /// Comparison of the latencies until the task runs.
    pub thread: ContextAgreement,
    /// Number of activities that our run lost because the ring was full. Softirqs that were
    /// preempted on PREEMPT_RT are unpaired, and do not count here.
    pub ring_full: u64,
}

/// Boots a lab under virtual time, and compares both tracers in it.
///
/// # Errors
/// If the lab fails, or its output cannot be read.
pub fn beside_timerlat() -> Result<BesideTimerlat> {
    let lab = Lab::kernel(DebianKernel::Rt).virtual_time(0);
    let report = lab.program(&lab_program("lab-tracefs")?).run(&[
        &format!(
            "lab-tracefs while {TRACER} -- vmnoise timerlat -d {SECONDS} -o /tmp/run.vmn --format json"
        ),
        "lab-tracefs show",
        "vmnoise explain --trace /tmp/run.vmn",
    ])?;
    let [result, kernel, ours] = &report.outputs[..] else {
        bail!("{} outputs", report.outputs.len());
    };
    let result: Value = result.json()?;
    let (kernel, ours) = (reported(kernel)?, reported(ours)?);
    let (kernel, pairs) = pairs(&kernel, &ours);
    ensure!(
        kernel as u64 > SECONDS * 800,
        "both saw the same {kernel} wake-ups only"
    );
    Ok(BesideTimerlat {
        kernel_version: report.kernel_version,
        kernel,
        matched: pairs.len(),
        irq: agreement(&pairs, |reported| reported.irq_ns)?,
        thread: agreement(&pairs, |reported| reported.thread_ns)?,
        ring_full: result["losses"]["ring_full"]
            .as_u64()
            .context("ring_full")?,
    })
}

fn reported(output: &CommandOutput) -> Result<Vec<Reported>> {
    wake_ups(output.text()?)
}

/// Parses the wake-ups in a trace, and sorts them by their expiry. The traces of the kernel and of
/// `vmnoise` have the same format: `TIME: #NUMBER context irq|thread timer_latency NS ns`.
fn wake_ups(trace: &str) -> Result<Vec<Reported>> {
    let mut all: Vec<(u64, Reported)> = Vec::new();
    for line in trace.lines() {
        let Some((head, event)) = line.split_once(": #") else {
            continue;
        };
        let words: Vec<&str> = event.split_whitespace().collect();
        let [
            number,
            "context",
            context,
            "timer_latency",
            latency_ns,
            "ns",
        ] = words[..]
        else {
            continue;
        };
        let time = head
            .split_whitespace()
            .next_back()
            .context("a line without time")?;
        let at_ns = (time.parse::<f64>()? * 1e9).round() as u64;
        let (number, latency_ns): (u64, u64) = (number.parse()?, latency_ns.parse()?);
        if all.last().is_none_or(|(last, _)| *last != number) {
            all.push((number, Reported::default()));
        }
        let Some((_, reported)) = all.last_mut() else {
            continue;
        };
        // Any context gives the expiry. For some wake-ups, the trace has only the return to user
        // space.
        reported.expiry_ns = at_ns.saturating_sub(latency_ns);
        match context {
            "irq" => reported.irq_ns = Some(latency_ns),
            "thread" => reported.thread_ns = Some(latency_ns),
            _ => {}
        }
    }
    let mut all: Vec<Reported> = all.into_iter().map(|(_, reported)| reported).collect();
    all.sort_by_key(|reported| reported.expiry_ns);
    Ok(all)
}

/// Returns the number of the kernel's wake-ups while both tasks ran, and the pairs. A pair is a
/// wake-up of the kernel and our wake-up nearest in time.
fn pairs(kernel: &[Reported], ours: &[Reported]) -> (usize, Vec<(Reported, Reported)>) {
    let (Some(first), Some(last)) = (ours.first(), ours.last()) else {
        return (0, Vec::new());
    };
    let window = first.expiry_ns..=last.expiry_ns;
    let kernel = kernel
        .iter()
        .filter(|reported| window.contains(&reported.expiry_ns));
    let is_whole = |reported: &Reported| reported.irq_ns.is_some() && reported.thread_ns.is_some();
    let beside = |theirs: &Reported| {
        let after = ours.partition_point(|reported| reported.expiry_ns < theirs.expiry_ns);
        let near = &ours[after.saturating_sub(1)..(after + 1).min(ours.len())];
        let distance = |reported: &&Reported| reported.expiry_ns.abs_diff(theirs.expiry_ns);
        let nearest = near.iter().min_by_key(distance)?;
        let matches = distance(&nearest) <= PERIOD_NS / 2 && is_whole(nearest) && is_whole(theirs);
        matches.then_some((*theirs, *nearest))
    };
    let count = kernel.clone().count();
    (count, kernel.filter_map(beside).collect())
}

fn agreement(
    pairs: &[(Reported, Reported)],
    context: impl Fn(&Reported) -> Option<u64>,
) -> Result<ContextAgreement> {
    let both = pairs
        .iter()
        .filter_map(|(kernel, ours)| Some((context(kernel)?, context(ours)?)));
    let of = |value: fn((u64, u64)) -> u64| median(both.clone().map(value)).context("no pairs");
    Ok(ContextAgreement {
        kernel_median_ns: of(|(kernel, _)| kernel)?,
        our_median_ns: of(|(_, ours)| ours)?,
        median_distance_ns: of(|(kernel, ours)| kernel.abs_diff(ours))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "\
# tracer: timerlat
          <idle>-0       [000] d.h1.    54.029328: #1     context    irq timer_latency       932 ns
           <...>-867     [000] .....    54.029339: #1     context thread timer_latency     11700 ns
          <idle>-0       [000] d.h1.    54.030328: #2     context    irq timer_latency       900 ns
";

    #[test]
    fn lines_of_one_wake_up_belong_together() {
        let reported = wake_ups(KERNEL).unwrap();
        assert_eq!(reported.len(), 2);
        assert_eq!(
            (reported[0].irq_ns, reported[0].thread_ns),
            (Some(932), Some(11_700))
        );
        assert_eq!(reported[1].thread_ns, None);
        assert!(reported[0].expiry_ns.abs_diff(54_029_327_000) <= 1_000);
    }

    #[test]
    fn a_wake_up_of_which_only_the_return_was_seen_has_its_expiry() {
        let line = "[000]     4.980272: #1999  context user-ret timer_latency      6312 ns";
        let reported = wake_ups(line).unwrap();
        assert_eq!((reported[0].irq_ns, reported[0].thread_ns), (None, None));
        assert!(reported[0].expiry_ns.abs_diff(4_980_265_688) <= 1_000);
    }

    #[test]
    fn only_whole_wake_ups_within_half_a_period_are_pairs() {
        let at = |expiry_ns| Reported {
            expiry_ns,
            irq_ns: Some(1),
            thread_ns: Some(2),
        };
        let ours = [at(1_000_000), at(2_000_000), at(9_000_000)];
        let kernel = [at(0), at(1_100_000), at(2_300_000), at(5_000_000)];
        let (count, pairs) = pairs(&kernel, &ours);
        assert_eq!((count, pairs.len()), (3, 2));
    }
}
