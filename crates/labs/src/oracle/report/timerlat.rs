//! The generated part that holds `vmnoise timerlat` against others.

use crate::oracle::{
    BesideCyclictest, BesideTimerlat, Causes, Delay, Descheduled, HereBesideCyclictest, Turns,
};

/// Everything that is held against it.
#[derive(Debug)]
pub struct TimerlatTruth {
    /// The kernel's tracer.
    pub kernel: BesideTimerlat,
    /// cyclictest under virtual time.
    pub cyclictest: BesideCyclictest,
    /// cyclictest on this machine.
    pub here: HereBesideCyclictest,
    /// Causes in the machine itself.
    pub causes: Causes,
    /// One below it.
    pub descheduled: Descheduled,
}

/// All sections.
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
        "### Wake-ups beside the kernel's timerlat tracer\n\nLinux {} with PREEMPT_RT, virtual time. \
         {} of {} wake-ups of the kernel's task ({:.1} %) have one of ours beside them, {} events lost.\n\n\
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
        "### Latencies beside cyclictest\n\nIn turns, {} each of 2 s with a period of 1 ms. Distances are the \
         largest between two distribution functions, in buckets of a microsecond. Under virtual time \
         Linux {}; this machine is shared with others at work.\n\n\
         | | cyclictest, median | vmnoise | runs of cyclictest apart | ours and its, median | ours and its, largest |\n\
         |---|---|---|---|---|---|\n",
        lab.turns.rounds, lab.kernel_version,
    );
    text += &turns("virtual time, `--no-trace`", &lab.turns);
    text += &format!(
        "| virtual time, with BPF | | {} | | {:.4}, moved by the medians | |\n",
        microseconds(lab.witnessed_ns as u64),
        lab.witnessed_distance
    );
    text += &turns("this machine, `--no-trace`", &here.turns);
    text += &turns("this machine, with BPF", &here.witnessed);
    text + &format!(
        "\nAt once, `--no-trace`: {:.4} apart on the one CPU of the lab, {:.4} here, each on its own CPU.\n",
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
         What a cause had of each is told by the kernel's own events in the same run. Of a vCPU that a task of its \
         host keeps from running for 3 ms at a time these are the events of the host's scheduler, laid over the guest's clock: \
         how long the vCPU's thread waited for a CPU.\n\n\
         | let loose | blamed | the longest, by the kernel | by vmnoise | largest difference of the ten | \
         not let loose, at most |\n|---|---|---|---|---|---|\n",
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
