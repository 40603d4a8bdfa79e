//! Reads from the kernel's own events how long each task and interrupt had a CPU. Tests compare the
//! time that a fault takes with these times.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::QUIET;
use crate::oracle::timestamp_ns;

const TRACEFS: &str = "/sys/kernel/tracing";
const EVENTS: [&str; 6] = [
    "sched/sched_switch",
    "irq_vectors",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
];

/// Starts the recording of the kernel's events on the quiet CPU.
pub(super) fn begin() -> Result<()> {
    write("trace_clock", "mono")?;
    write("tracing_cpumask", &crate::placed::mask(QUIET))?;
    write(&format!("per_cpu/cpu{QUIET}/buffer_size_kb"), "32768")?;
    for event in EVENTS {
        write(&format!("events/{event}/enable"), "1")?;
    }
    write("trace", "")?;
    write("tracing_on", "1")
}

/// Ends the recording of the kernel's events, and returns its text.
pub(super) fn end() -> Result<String> {
    write("tracing_on", "0")?;
    for event in EVENTS {
        write(&format!("events/{event}/enable"), "0")?;
    }
    let trace = Path::new(TRACEFS).join(format!("per_cpu/cpu{QUIET}/trace"));
    fs::read_to_string(&trace).with_context(|| trace.display().to_string())
}

fn write(file: &str, value: &str) -> Result<()> {
    fs::write(Path::new(TRACEFS).join(file), value)
        .with_context(|| format!("writing {value} to {file}"))
}

/// Returns how long each task and interrupt had the CPU between two times of CLOCK_MONOTONIC, in
/// nanoseconds. The time of a nested interrupt counts only for this interrupt. Names look like `irq
/// ttyS0:4`, `softirq NET_RX:3`, `thread ksmd:31`.
pub(super) fn took(trace: &str, from_ns: u64, to_ns: u64) -> Result<BTreeMap<String, u64>> {
    let mut took = BTreeMap::new();
    let mut thread = None;
    let mut inside: Vec<String> = Vec::new();
    let mut since_ns = from_ns;
    for line in trace.lines() {
        ensure!(!line.contains(" EVENTS]"), "the trace is not whole: {line}");
        let Some((before, event)) = line.split_once(": ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let Some(what) = what(event) else { continue };
        let at_ns = timestamp_ns(before)?.clamp(from_ns, to_ns);
        if let Some(who) = inside.last().or(thread.as_ref()) {
            *took.entry(who.clone()).or_insert(0) += at_ns - since_ns;
        }
        since_ns = at_ns;
        match what {
            What::Begin(name) => inside.push(name),
            What::End => drop(inside.pop()),
            What::Switch(name) => thread = Some(name),
        }
    }
    if let Some(thread) = thread {
        *took.entry(thread).or_insert(0) += to_ns - since_ns;
    }
    Ok(took)
}

enum What {
    Begin(String),
    End,
    Switch(String),
}

fn what(event: &str) -> Option<What> {
    let (kind, text) = event.split_once(": ")?;
    let value = |key: &str, end: &str| {
        let (_, value) = text.split_once(key)?;
        Some(value.split_once(end).map_or(value, |(value, _)| value))
    };
    Some(match kind {
        "sched_switch" => {
            let (comm, pid) = (
                value(" next_comm=", " next_pid=")?,
                value(" next_pid=", " ")?,
            );
            What::Switch(format!("thread {comm}:{pid}"))
        }
        "irq_handler_entry" => What::Begin(format!(
            "irq {}:{}",
            value("name=", " ")?,
            value("irq=", " ")?
        )),
        "softirq_entry" => What::Begin(format!(
            "softirq {}:{}",
            value("action=", "]")?,
            value("vec=", " ")?
        )),
        _ if kind.ends_with("_exit") => What::End,
        _ => {
            let name = kind.strip_suffix("_entry")?;
            What::Begin(format!("irq {name}:{}", value("vector=", " ")?))
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    const TRACE: &str = "\
# tracer: nop
     vmnoise-91   [001] d..2.  2.000010: sched_switch: prev_comm=a prev_pid=1 prev_prio=1 prev_state=R ==> next_comm=vmnoise-spin next_pid=91 next_prio=120
     vmnoise-91   [001] d.h1.  2.000020: irq_handler_entry: irq=4 name=ttyS0
     vmnoise-91   [001] d.h1.  2.000022: local_timer_entry: vector=236
     vmnoise-91   [001] d.h1.  2.000025: local_timer_exit: vector=236
     vmnoise-91   [001] d.h1.  2.000030: irq_handler_exit: irq=4 ret=handled
     vmnoise-91   [001] d.s1.  2.000031: softirq_entry: vec=3 [action=NET_RX]
     vmnoise-91   [001] d.s1.  2.000033: softirq_exit: vec=3 [action=NET_RX]
     vmnoise-91   [001] d..2.  2.000040: sched_switch: prev_comm=vmnoise-spin prev_pid=91 prev_prio=120 prev_state=R ==> next_comm=ksmd next_pid=31 next_prio=125
";

    #[test]
    fn each_has_what_nobody_inside_of_it_had() {
        let took = took(TRACE, 2_000_021_000, 2_000_050_000).unwrap();
        let expected = [
            ("irq local_timer:236", 3_000),
            ("irq ttyS0:4", 6_000),
            ("softirq NET_RX:3", 2_000),
            ("thread ksmd:31", 10_000),
            ("thread vmnoise-spin:91", 8_000),
        ];
        let expected = expected.map(|(name, ns)| (name.to_owned(), ns));
        assert_eq!(took, expected.into());
        assert!(super::took("CPU:1 [LOST 12 EVENTS]\n", 0, 1).is_err());
    }
}
