//! The latencies of one CPU, and what of them either side had.

use vmnoise_events::Share;
use vmnoise_explain::{ContextSides, CpuSides, CpuWakeups, LatencyFigures};

use crate::output::{cells, table};
use crate::units::human;

/// What people call the contexts, in their order.
const NAMES: [&str; 3] = ["IRQ", "Thread", "Ret user"];

/// How late it was.
pub fn figures(cpu: &CpuWakeups) -> String {
    let contexts = [cpu.irq, cpu.thread, cpu.user];
    let rows: Vec<[String; 7]> = NAMES
        .iter()
        .zip(contexts)
        .map(|(name, figures)| {
            let time = |of: fn(&LatencyFigures) -> u64| cells::time(figures.as_ref().map(of));
            [
                (*name).to_owned(),
                figures.map_or(0, |figures| figures.count).to_string(),
                time(|it| it.min_ns),
                time(|it| it.mean_ns),
                time(|it| it.p99_ns),
                time(|it| it.p999_ns),
                time(|it| it.max_ns),
            ]
        })
        .collect();
    let headings = ["until", "wake-ups", "min", "mean", "p99", "p99.9", "max"];
    table::columns(headings, &[0], &rows)
}

/// What of all of them either side had, and whose of the host it was.
pub fn render(cpu: &CpuSides) -> String {
    let rows = NAMES.iter().zip(&cpu.contexts);
    let rows: Vec<[String; 13]> = rows.map(|(name, sides)| row(name, sides)).collect();
    let headings = [
        "until",
        "all",
        "guest",
        "host",
        "unknown",
        "kvm",
        "vmm",
        "preempted",
        "host irq",
        "blocked",
        "throttled",
        "steal",
        "unexplained",
    ];
    table::columns(headings, &[0], &rows)
}

fn row(name: &str, sides: &ContextSides) -> [String; 13] {
    let shares = &sides.shares_ns;
    [
        name.to_owned(),
        human(sides.total_ns),
        human(sides.guest_ns),
        human(sides.host_ns),
        human(sides.unknown_ns),
        cells::time(shares[Share::Kvm]),
        cells::time(shares[Share::Vmm]),
        cells::time(shares[Share::Preempted]),
        cells::time(shares.sum_of_known(Share::HOST_INTERRUPTS)),
        cells::time(shares[Share::Blocked]),
        cells::time(shares[Share::Throttled]),
        cells::time(shares[Share::Steal]),
        cells::time(shares.sum_of_known(Share::RESIDUALS)),
    ]
}
