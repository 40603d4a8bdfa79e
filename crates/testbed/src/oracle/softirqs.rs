//! Compares our softirqs with the kernel's own events, and these events with the kernel's counters.
//! The kernel of this lab runs softirqs in interrupts; on PREEMPT_RT, softirqs run in threads.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::agreement::Agreement;
use super::matching::matching;
use super::trace::{OsnoiseEventKind, OsnoiseLine, lines, timestamp_ns};
use crate::bed::{DebianKernel, Lab};
use crate::lab_program;

const EVENTS: &str = "trace_clock=mono buffer_size_kb=16384 events/irq/softirq_entry/enable=1 \
                      events/irq/softirq_exit/enable=1";

/// Results of the comparison in a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Softirqs {
    /// `uname -r` of the lab's kernel.
    pub kernel_version: String,
    /// Length of the window that both traces cover, nanoseconds.
    pub window_ns: u64,
    /// Agreement of our softirqs with the kernel's events `softirq_entry` and `softirq_exit`.
    pub agreement: Agreement,
    /// For each softirq by name, the number of `softirq_entry` events in the whole trace, and the
    /// increase of its counter in /proc/softirqs.
    pub counted: BTreeMap<String, (u64, u64)>,
}

/// Boots a lab under virtual time, and compares the softirqs in it.
///
/// # Errors
/// If the lab fails, or its output cannot be read.
pub fn softirqs() -> Result<Softirqs> {
    let measure = "vmnoise osnoise --duration 1s --output /tmp/run.vmn --format json";
    let both = format!("lab-tracefs while {EVENTS} -- {measure}");
    let ours = "vmnoise explain --trace /tmp/run.vmn";
    let report = Lab::kernel(DebianKernel::Cloud)
        .virtual_time(0)
        .program(&lab_program("lab-tracefs")?)
        .run(&[&both, "lab-tracefs show", ours])?;
    report.outputs[0].text()?;
    let trace = report.outputs[1].text()?;
    let kernel = of_tracefs(trace)?;
    let mut ours = lines(report.outputs[2].text()?)?;
    ours.retain(|line| line.kind == OsnoiseEventKind::Softirq);
    let both = matching(&kernel, &ours);
    Ok(Softirqs {
        kernel_version: report.kernel_version.clone(),
        window_ns: both.window_ns,
        agreement: Agreement::of(OsnoiseEventKind::Softirq, &both),
        counted: counted(trace, &kernel)?,
    })
}

/// Pairs each `softirq_entry` with its `softirq_exit`. The lab has one CPU, on which softirqs do
/// not nest.
fn of_tracefs(trace: &str) -> Result<Vec<OsnoiseLine>> {
    let mut lines = Vec::new();
    let mut begun = None;
    for text in trace.lines() {
        ensure!(!text.contains(" EVENTS]"), "the trace is not whole: {text}");
        if let Some((before, after)) = text.split_once(": softirq_entry: ") {
            begun = Some((timestamp_ns(before)?, softirq_name(after)?));
        } else if let Some((before, after)) = text.split_once(": softirq_exit: ")
            && let Some((start_ns, name)) = begun.take()
        {
            let at_ns = timestamp_ns(before)?;
            ensure!(name == softirq_name(after)?, "an exit of another: {text}");
            lines.push(OsnoiseLine {
                kind: OsnoiseEventKind::Softirq,
                name,
                at_ns,
                start_ns,
                dur_ns: at_ns.saturating_sub(start_ns),
            });
        }
    }
    Ok(lines)
}

/// Converts `vec=1 [action=TIMER]` to `TIMER:1`.
fn softirq_name(text: &str) -> Result<String> {
    let parts = text.strip_prefix("vec=").and_then(|rest| {
        let (number, rest) = rest.split_once(" [action=")?;
        Some((number, rest.strip_suffix(']')?))
    });
    let (number, name) = parts.with_context(|| format!("no soft interrupt: {text}"))?;
    Ok(format!("{name}:{number}"))
}

fn counted(trace: &str, kernel: &[OsnoiseLine]) -> Result<BTreeMap<String, (u64, u64)>> {
    let mut marks = trace
        .lines()
        .filter_map(|text| text.split_once(": tracing_mark_write: "))
        .map(|(before, counts)| anyhow::Ok((timestamp_ns(before)?, proc_softirqs(counts))));
    let (Some(first), Some(last)) = (marks.next(), marks.next_back()) else {
        anyhow::bail!("the trace lacks its two markers");
    };
    let ((from_ns, before), (to_ns, after)) = (first?, last?);
    let mut counted = BTreeMap::new();
    for (name, count) in after {
        let advance = count - before.get(&name).copied().unwrap_or(0);
        let traced = kernel.iter().filter(|line| {
            line.name.starts_with(&name) && (from_ns..=to_ns).contains(&line.start_ns)
        });
        let traced = traced.count() as u64;
        counted.insert(name, (traced, advance));
    }
    counted.retain(|_, counts| *counts != (0, 0));
    Ok(counted)
}

/// Parses the words of /proc/softirqs, such as `CPU0 HI: 0 TIMER: 12 …`. Returns the counts by
/// name; each name keeps its colon.
fn proc_softirqs(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut name = "";
    for word in text.split(' ') {
        if word.ends_with(':') {
            name = word;
        } else if let Ok(count) = word.parse::<u64>() {
            *counts.entry(name.to_owned()).or_insert(0) += count;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
     lab-tracefs-91   [000] .......     2.000001: tracing_mark_write: CPU0 HI: 0 TIMER: 12 RCU: 5
          <idle>-0    [000] ..s.1..     2.000010: softirq_entry: vec=1 [action=TIMER]
          <idle>-0    [000] ..s.1..     2.000014: softirq_exit: vec=1 [action=TIMER]
          <idle>-0    [000] ..s.1..     2.000014: softirq_entry: vec=9 [action=RCU]
          <idle>-0    [000] ..s.1..     2.000016: softirq_exit: vec=9 [action=RCU]
     lab-tracefs-91   [000] .......     2.000020: tracing_mark_write: CPU0 HI: 0 TIMER: 13 RCU: 6
";

    #[test]
    fn entries_and_counters_of_the_kernel_are_laid_side_by_side() {
        let kernel = of_tracefs(TRACE).unwrap();
        let reported: Vec<_> = kernel
            .iter()
            .map(|line| (&*line.name, line.dur_ns))
            .collect();
        assert_eq!(reported, [("TIMER:1", 4_000), ("RCU:9", 2_000)]);
        let one_each = ["RCU:", "TIMER:"].map(|name| (name.to_owned(), (1, 1)));
        assert_eq!(counted(TRACE, &kernel).unwrap(), one_each.into());
    }
}
