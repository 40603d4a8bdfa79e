//! Compares delays that `vmnoise timerlat` reports with delays of known cause. The kernel's own
//! events report how long each known delay was.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::trace::timestamp_ns;
use crate::bed::{CommandOutput, DebianKernel, Lab};
use crate::lab_program;

/// Command of the measuring task. The periods of the disturbers are not near a multiple of its
/// period. So after a few periods, the disturbers have hit any point between two wake-ups.
pub(super) const TASK: &str = "vmnoise timerlat -p 1013 --format json";
/// Options of the trace. The trace uses CLOCK_MONOTONIC, as `vmnoise` does. It contains every
/// interrupt, because an interrupt within a disturber's time does not count as the disturber's
/// time.
const EVENTS: &str = "trace_clock=mono buffer_size_kb=16384 events/irq_vectors/enable=1 \
                      events/irq/irq_handler_entry/enable=1 events/irq/irq_handler_exit/enable=1 \
                      events/irq/softirq_entry/enable=1 events/irq/softirq_exit/enable=1";
/// Texts that identify the lines at the start and at the end of each interrupt.
const INTERRUPTS: [[&str; 2]; 3] = [
    ["_entry: vector=", "_exit: vector="],
    [": irq_handler_entry: ", ": irq_handler_exit: "],
    [": softirq_entry: ", ": softirq_exit: "],
];

/// Start and end of a window, CLOCK_MONOTONIC in nanoseconds.
pub(super) type Span = (u64, u64);

/// A disturber, and the trace lines in which the kernel reports the disturber's time.
struct Injected {
    what: &'static str,
    disturber: &'static str,
    /// Further options of the measuring task.
    task: &'static str,
    /// Further options of the trace.
    events: &'static str,
    /// Texts that identify the lines at the start and at the end of the disturber's time.
    lines: [&'static str; 2],
    /// Beginning of the name that results must blame.
    source: &'static str,
}

const INJECTED: [Injected; 3] = [
    Injected {
        what: "one interrupt in which 800 timers expire",
        disturber: "& lab-disturb expiries 0 800 7410 200",
        task: "",
        events: "",
        lines: [": local_timer_entry: ", ": local_timer_exit: "],
        source: "local_timer:",
    },
    Injected {
        what: "a task of higher priority that burns 300 µs",
        disturber: "& lab-disturb bursts 0 97 300 97 /tmp/bursts",
        task: " -P f:40",
        events: " events/sched/sched_switch/enable=1",
        lines: [" next_comm=lab-burner ", " prev_comm=lab-burner "],
        source: "lab-burner:",
    },
    // This entry is the last, because its disturber does not end.
    Injected {
        what: "one softirq that wakes 200 tasks",
        disturber: "& lab-disturb timeouts 0 200 20000",
        task: "",
        events: "",
        lines: [": softirq_entry: vec=1 ", ": softirq_exit: vec=1 "],
        source: "TIMER:1",
    },
];

/// Delay of a wake-up that is among the wake-ups with the longest latency, while the disturber ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// Time that the cause took according to the kernel's own events, nanoseconds.
    pub injected_ns: u64,
    /// Time that `vmnoise` attributes to the cause's name, nanoseconds.
    pub named_ns: u64,
    /// Latency of the wake-up, nanoseconds.
    pub latency_ns: u64,
}

impl Delay {
    /// Returns the absolute difference between `injected_ns` and `named_ns`, nanoseconds.
    pub fn apart_ns(&self) -> u64 {
        self.injected_ns.abs_diff(self.named_ns)
    }
}

/// A known cause, and the delays that `vmnoise` attributes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Description of the disturber.
    pub what: &'static str,
    /// Name that `vmnoise` blamed.
    pub source: String,
    /// The run's wake-ups with the longest latency. The longest is first.
    pub delays: Vec<Delay>,
    /// Longest time of the same name in one wake-up of the run without the disturber, nanoseconds.
    pub quiet_ns: u64,
}

/// Delays that a lab caused and measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Causes {
    /// `uname -r` of the lab's kernel.
    pub kernel_version: String,
    /// Known causes. Each had a run of its own.
    pub causes: Vec<Cause>,
}

/// Boots a lab under virtual time, and starts one disturber after the other.
///
/// # Errors
/// If the lab fails, or its output cannot be read.
pub fn causes() -> Result<Causes> {
    let mut commands = vec![format!("{TASK} -d 1")];
    for injected in &INJECTED {
        let Injected {
            disturber,
            task,
            events,
            ..
        } = injected;
        commands.extend([
            (*disturber).to_owned(),
            format!("lab-tracefs while {EVENTS}{events} -- {TASK}{task} -d 2"),
            "lab-tracefs show".to_owned(),
        ]);
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let report = Lab::kernel(DebianKernel::Cloud)
        .virtual_time(0)
        .program(&lab_program("lab-tracefs")?)
        .program(&lab_program("lab-disturb")?)
        .run(&commands)?;
    let (quiet, beside) = report.outputs.split_first().context("no outputs")?;
    let quiet = quiet.json()?;
    let reported = INJECTED.iter().zip(beside.chunks(2));
    let causes = reported.map(|(injected, reported)| injected.cause(reported, &quiet));
    Ok(Causes {
        kernel_version: report.kernel_version.clone(),
        causes: causes.collect::<Result<_>>()?,
    })
}

impl Injected {
    fn cause(&self, reported: &[CommandOutput], quiet: &Value) -> Result<Cause> {
        let [ours, kernel] = reported else {
            bail!("{} outputs of a cause", reported.len());
        };
        let ours = ours.json()?;
        let spans = spans(kernel.text()?, self.lines)?;
        let (source, _) = self.found(&ours)?.with_context(|| self.unnamed())?;
        let (_, quiet_ns) = self.found(quiet)?.unwrap_or_default();
        let worst = list(&ours["cpus"][0]["worst"])?.iter();
        let delays = worst.map(|wakeup| delay(wakeup, &spans, |part| part["source"] == *source));
        Ok(Cause {
            what: self.what,
            delays: delays.collect::<Result<_>>()?,
            source,
            quiet_ns,
        })
    }

    fn unnamed(&self) -> String {
        format!("no culprit is named {}", self.source)
    }

    /// Returns the whole name of this culprit, and its longest time in one wake-up, nanoseconds.
    /// Returns `None` if the result does not list the culprit.
    fn found(&self, result: &Value) -> Result<Option<(String, u64)>> {
        for source in list(&result["cpus"][0]["sources"])? {
            let name = source["name"].as_str().context("a source has no name")?;
            if name.starts_with(self.source) {
                return Ok(Some((name.to_owned(), number(&source["max_ns"])?)));
            }
        }
        Ok(None)
    }
}

/// Returns the times from each line that contains `begins` to the next line that contains `ends`,
/// without the time of interrupts in between.
fn spans(trace: &str, [begins, ends]: [&str; 2]) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    let mut began = false;
    let mut interrupts = 0_u32;
    // Start of the current time without interrupts; `None` outside such a time.
    let mut since_ns = None;
    for line in trace.lines() {
        ensure!(!line.contains(" EVENTS]"), "the trace is not whole: {line}");
        let of_interrupt = |side: usize| INTERRUPTS.iter().any(|lines| line.contains(lines[side]));
        // The disturber's own lines are checked first, because the disturber may be an interrupt
        // itself.
        if line.contains(begins) {
            began = true;
        } else if line.contains(ends) {
            began = false;
        } else if of_interrupt(0) {
            interrupts += 1;
        } else if of_interrupt(1) {
            interrupts = interrupts.saturating_sub(1);
        } else {
            continue;
        }
        let (before, _) = line.split_once(": ").context("a line without time")?;
        let at_ns = timestamp_ns(before)?;
        if let Some(since_ns) = since_ns.take() {
            spans.push((since_ns, at_ns));
        }
        since_ns = (began && interrupts == 0).then_some(at_ns);
    }
    Ok(spans)
}

/// Returns how much of these windows lies within a wake-up's latency, and how much time of the
/// wake-up is attributed to parts that belong to the cause.
pub(super) fn delay(
    wakeup: &Value,
    spans: &[Span],
    belongs: impl Fn(&Value) -> bool,
) -> Result<Delay> {
    let latency_ns = number(&wakeup["latency_ns"])?;
    let from_ns = number(&wakeup["expiry_mono_ns"])?;
    let to_ns = from_ns + latency_ns;
    let within = |&(begin, end): &Span| end.min(to_ns).saturating_sub(begin.max(from_ns));
    Ok(Delay {
        injected_ns: spans.iter().map(within).sum(),
        named_ns: booked(wakeup, belongs)?,
        latency_ns,
    })
}

/// Returns the sum of those parts of a wake-up for which `belongs` returns true, nanoseconds.
fn booked(wakeup: &Value, belongs: impl Fn(&Value) -> bool) -> Result<u64> {
    let parts = list(&wakeup["parts"])?.iter();
    let parts = parts.filter(|part| belongs(part));
    parts.map(|part| number(&part["ns"])).sum()
}

pub(super) fn list(value: &Value) -> Result<&Vec<Value>> {
    value
        .as_array()
        .with_context(|| format!("no list: {value}"))
}

fn number(value: &Value) -> Result<u64> {
    value
        .as_u64()
        .with_context(|| format!("no number: {value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TRACE: &str = "\
          <idle>-0  [000] d.h1.  2.000010: local_timer_exit: vector=236
          <idle>-0  [000] d.h1.  2.000100: local_timer_entry: vector=236
          <idle>-0  [000] d.h1.  2.000400: local_timer_exit: vector=236
          <idle>-0  [000] d.h1.  2.001100: local_timer_entry: vector=236
";

    #[test]
    fn an_interrupt_inside_is_not_its_own() {
        const BURST: &str = "\
      timerlat-90 [000] d..2. 2.000100: sched_switch: prev_comm=timerlat next_comm=lab-burner next_pid=94
    lab-burner-94 [000] d.h2. 2.000150: local_timer_entry: vector=236
    lab-burner-94 [000] d.h2. 2.000157: local_timer_exit: vector=236
    lab-burner-94 [000] ..s2. 2.000158: softirq_entry: vec=1 [action=TIMER]
    lab-burner-94 [000] d.H2. 2.000160: irq_work_entry: vector=246
    lab-burner-94 [000] d.H2. 2.000161: irq_work_exit: vector=246
    lab-burner-94 [000] ..s2. 2.000163: softirq_exit: vec=1 [action=TIMER]
    lab-burner-94 [000] d..2. 2.000400: sched_switch: prev_comm=lab-burner next_comm=timerlat
       swapper-0  [000] d.h2. 2.000500: local_timer_entry: vector=236
       swapper-0  [000] d.h2. 2.000507: local_timer_exit: vector=236
";
        let spans = spans(BURST, INJECTED[1].lines).unwrap();
        let us = |begin: u64, end: u64| (2_000_000_000 + begin * 1000, 2_000_000_000 + end * 1000);
        assert_eq!(spans, [us(100, 150), us(157, 158), us(163, 400)]);
    }

    #[test]
    fn only_what_lies_in_a_wake_up_has_delayed_it() {
        let spans = spans(TRACE, INJECTED[0].lines).unwrap();
        assert_eq!(spans, [(2_000_100_000, 2_000_400_000)]);
        let part = |source: &str, ns: u64| json!({"source": source, "ns": ns});
        let wakeup = json!({
            "expiry_mono_ns": 2_000_150_000_u64,
            "latency_ns": 260_000,
            "parts": [part("local_timer:236", 200_000), part("hog:7", 10_000), part("local_timer:236", 49_000)],
        });
        let is_source = |part: &Value| part["source"] == "local_timer:236";
        let found = delay(&wakeup, &spans, is_source).unwrap();
        let expected = Delay {
            injected_ns: 250_000,
            named_ns: 249_000,
            latency_ns: 260_000,
        };
        assert_eq!(found, expected);
    }
}
