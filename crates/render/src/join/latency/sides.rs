//! Latencies of one CPU, divided between guest and host.

use vmnoise_events::Share;
use vmnoise_explain::{
    CpuSides, CpuWakeups, EXIT_COLUMNS, LatencyRow, TablePlace, latency_columns,
};

use crate::table;

/// Names of the three contexts of a wake-up, in order.
const NAMES: [&str; 3] = ["IRQ", "Thread", "Ret user"];

/// Renders a table of the latency figures of each context.
pub fn figures(cpu: &CpuWakeups) -> String {
    let contexts = NAMES.into_iter().zip([cpu.irq, cpu.thread, cpu.user]);
    let rows = contexts.map(|(until, figures)| LatencyRow {
        cpu: cpu.cpu,
        until,
        figures,
    });
    table::of(&rows.collect::<Vec<_>>(), |_| {
        latency_columns(TablePlace::Text)
    })
}

/// Renders a table of all latencies: the guest's time, the host's time, and the host's shares.
pub fn render(cpu: &CpuSides) -> String {
    let rows: Vec<_> = NAMES.into_iter().zip(&cpu.contexts).collect();
    // A guest sleeps (`halted`) only at its own request, so this share delays no wake-up.
    let of_host = EXIT_COLUMNS.into_iter();
    let of_host = of_host.filter(|(_, shares)| !shares.contains(&Share::Halted));
    table::of(&rows, |it| {
        it.name("until", |(until, _)| Some(until))
            .time("all", |(_, sides)| sides.total_ns)
            .time("guest", |(_, sides)| sides.guest_ns)
            .time("host", |(_, sides)| sides.host_ns)
            .time("unknown", |(_, sides)| sides.unknown_ns)
            .each(of_host, |it, (title, shares)| {
                it.time(title, |(_, sides)| sides.shares_ns.sum_of_known(shares))
            })
            .time("steal", |(_, sides)| sides.shares_ns[Share::Steal])
            .time("unexplained", |(_, sides)| {
                sides.shares_ns.sum_of_known(&Share::RESIDUALS)
            })
    })
}
