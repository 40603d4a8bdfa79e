//! The generated section that compares `vmnoise timerlat` with others.

use crate::oracle::{
    BesideCyclictest, BesideTimerlat, Causes, Delay, Descheduled, HereBesideCyclictest, Turns,
};

/// All results of the comparison.
#[derive(Debug)]
pub struct TimerlatTruth {
    /// Comparison with the kernel's tracer.
    pub kernel: BesideTimerlat,
    /// Comparison with cyclictest under virtual time.
    pub cyclictest: BesideCyclictest,
    /// Comparison with cyclictest on this machine.
    pub here: HereBesideCyclictest,
    /// Causes inside the machine.
    pub causes: Causes,
    /// A cause below the machine.
    pub descheduled: Descheduled,
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
         {} of {} wake-ups of the kernel's task ({:.1} %) have a counterpart of ours, {} events lost.\n\n\
         | median ns | kernel | vmnoise | distance within a pair |\n|---|---|---|---|\n",
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
        "### Latencies compared with cyclictest\n\nEach program in turn, {} runs of 2 s with a period of 1 ms. A \
         distance is the largest difference between two distribution functions, in buckets of a microsecond. \
         Virtual time is of Linux {}; this machine has other load.\n\n\
         | | cyclictest, median | vmnoise, median | distance between runs of cyclictest, largest | between ours and its, median | between ours and its, largest |\n\
         |---|---|---|---|---|---|\n",
        lab.turns.rounds, lab.kernel_version,
    );
    text += &turns("virtual time, `--no-trace`", &lab.turns);
    text += &format!(
        "| virtual time, with BPF | | {} | | {:.4}, shifted by the medians | |\n",
        microseconds(lab.witnessed_ns as u64),
        lab.witnessed_distance
    );
    text += &turns("this machine, `--no-trace`", &here.turns);
    text += &turns("this machine, with BPF", &here.witnessed);
    text + &format!(
        "\nAt the same time, `--no-trace`: distance {:.4} on the one CPU of the lab, {:.4} here, each on its own CPU.\n",
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

fn known_causes(found: &Causes, descheduled: &Descheduled) -> String {
    let mut text = format!(
        "### Delays of known cause and length\n\nLinux {}, virtual time; the ten latest wake-ups of each run. \
         The kernel's own events in the same run show how much of each delay the cause took. If a task of the host \
         preempts the vCPU for 3 ms at a time, these are the events of the host's scheduler, converted to the \
         guest's clock: how long the vCPU's thread waited for a CPU.\n\n\
         | cause | blamed | longest, by the kernel | by vmnoise | largest difference of the ten | \
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
    let below = "a task of the host in the vCPU's place";
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
