//! Writes the section that compares `vmnoise timerlat` with other tools.

use crate::oracle::{
    BesideCyclictest, BesideTimerlat, Causes, Delay, DeschedulingTrace, HereBesideCyclictest, Turns,
};

/// All results of the section.
#[derive(Debug)]
pub struct TimerlatTruth {
    /// Comparison with the kernel's timerlat tracer.
    pub kernel: BesideTimerlat,
    /// Comparison with cyclictest under virtual time.
    pub cyclictest: BesideCyclictest,
    /// Comparison with cyclictest on this machine.
    pub here: HereBesideCyclictest,
    /// Delays with known causes inside the machine.
    pub causes: Causes,
    /// Delays with a known cause on the machine's host.
    pub descheduled: DeschedulingTrace,
}

/// Returns the whole section.
pub fn timerlat(found: &TimerlatTruth) -> String {
    let sections = [
        beside_tracer(&found.kernel),
        beside_cyclictest(&found.cyclictest, &found.here),
        known_causes(&found.causes, &found.descheduled),
    ];
    sections.join("\n")
}

fn beside_tracer(found: &BesideTimerlat) -> String {
    let mut text = format!(
        "### Wake-ups compared with the kernel's timerlat tracer\n\nLinux {} with PREEMPT_RT, virtual time. \
         {} of {} wake-ups of the kernel's task ({:.1} %) match a wake-up of vmnoise's task. {} events were lost.\n\n\
         | median ns | kernel | vmnoise | difference within a pair |\n|---|---|---|---|\n",
        found.kernel_version,
        found.matched,
        found.kernel,
        found.matched as f64 * 100.0 / found.kernel as f64,
        found.ring_full,
    );
    for (name, context) in [("IRQ", &found.irq), ("Thread", &found.thread)] {
        text += &format!(
            "| {name} | {} | {} | {} |\n",
            context.kernel_median_ns, context.our_median_ns, context.median_distance_ns
        );
    }
    text
}

fn beside_cyclictest(lab: &BesideCyclictest, here: &HereBesideCyclictest) -> String {
    let mut text = format!(
        "### Latencies compared with cyclictest\n\ncyclictest and vmnoise took turns, with {} runs each of 2 s, and a period of 1 ms. A \
         distance is the largest difference between two distribution functions, in buckets of a microsecond. The \
         lab under virtual time had Linux {}. This machine had other load.\n\n\
         | | median, cyclictest | median, vmnoise | distance between runs of cyclictest | distance between both, median | distance between both, largest |\n\
         |---|---|---|---|---|---|\n",
        lab.turns.rounds, lab.kernel_version,
    );
    text += &turns("virtual time, `--no-trace`", &lab.turns);
    text += &format!(
        "| virtual time, with BPF | | {} | | {:.4}, after a shift by the medians | |\n",
        microseconds(lab.witnessed_ns as u64),
        lab.witnessed_distance
    );
    text += &turns("this machine, `--no-trace`", &here.turns);
    text += &turns("this machine, with BPF", &here.witnessed);
    text + &format!(
        "\nIf both ran at the same time, with `--no-trace`: the distance is {:.4} on the one CPU of the lab, and {:.4} on this \
         machine, each on its own CPU.\n",
        lab.at_once, here.at_once
    )
}

fn turns(what: &str, turns: &Turns) -> String {
    format!(
        "| {what} | {} | {} | {:.4} | {:.4} | {:.4} |\n",
        microseconds(turns.cyclictest_ns as u64),
        microseconds(turns.ours_ns as u64),
        turns.own_distance,
        turns.our_distance,
        turns.our_largest,
    )
}

fn known_causes(found: &Causes, descheduled: &DeschedulingTrace) -> String {
    let mut text = format!(
        "### Delays of known cause and length\n\nLinux {}, virtual time; the ten latest wake-ups of each run. \
         The time of a cause comes from the kernel's own events in the same run. In the last row a task of the \
         host keeps the vCPU from running, for 3 ms at a time. There the events are those of the host's scheduler, \
         on the guest's clock: how long the vCPU's thread waited for a CPU.\n\n\
         | cause | culprit by vmnoise | longest, by the kernel | longest, by vmnoise | largest difference of the ten | \
         without the cause, at most |\n|---|---|---|---|---|---|\n",
        found.kernel_version
    );
    let mut row = |what: &str, source: &str, delays: &[Delay], quiet_ns: u64| {
        let first = delays.first();
        let apart = delays.iter().map(Delay::apart_ns).max();
        text += &format!(
            "| {what} | `{source}` | {} | {} | {} | {} |\n",
            maybe(first.map(|delay| delay.injected_ns)),
            maybe(first.map(|delay| delay.named_ns)),
            maybe(apart),
            microseconds(quiet_ns),
        );
    };
    for cause in &found.causes {
        row(cause.what, &cause.source, &cause.delays, cause.quiet_ns);
    }
    let below = "a task of the host that runs instead of the vCPU";
    let delays: Vec<Delay> = descheduled.delays.iter().map(|late| late.delay).collect();
    row(below, "steal", &delays, descheduled.quiet_ns);
    text
}

fn maybe(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), microseconds)
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:03} µs", ns / 1_000, ns % 1_000)
}
