//! Budgets of the latencies of a run.

use vmnoise_explain::{CpuWakeups, Phase, WakeupSummary};

use crate::{cells, table};

/// Maximum number of sources that are printed for one CPU; the JSON contains all.
const SOURCES_PER_CPU: usize = 8;

/// Renders the sum of each CPU's latencies by phase, share and source.
pub fn sums(wakeups: &WakeupSummary) -> String {
    let mut out = String::new();
    for cpu in &wakeups.cpus {
        out += &format!(
            "\nWhere the latency of CPU {} came from\n{}",
            cpu.cpu,
            of(cpu)
        );
        out += &flaws(cpu);
    }
    out
}

/// Renders the limitations of a CPU's figures; empty if there are none.
pub fn flaws(cpu: &CpuWakeups) -> String {
    let mut out = String::new();
    if cpu.missed > 0 {
        out += &format!(
            " {} periods were missed: corrected for this (coordinated omission), p99 is {}, p99.9 {}\n",
            cpu.missed,
            cells::time(cpu.corrected.map(|figures| figures.p99_ns)),
            cells::time(cpu.corrected.map(|figures| figures.p999_ns)),
        );
    }
    if cpu.incomplete > 0 {
        out += &format!(
            " wake-ups with a step that was not seen: {}; their phases are unknown there\n",
            cpu.incomplete
        );
    }
    out
}

fn of(cpu: &CpuWakeups) -> String {
    let phases = &cpu.phases_ns;
    let mut of_phases = vec![
        (Phase::ArmedLate.name(), phases.armed_late),
        (Phase::Irq.name(), phases.irq),
        (Phase::Handler.name(), phases.handler),
        (Phase::Wakeup.name(), phases.wakeup),
        (Phase::Return.name(), phases.return_),
    ];
    if phases.unsplit > 0 {
        of_phases.push(("unknown", Some(phases.unsplit)));
    }
    let shares = cpu.shares_ns.iter().filter(|(_, ns)| *ns > Some(0));
    let of_shares: Vec<_> = shares.map(|(share, ns)| (share.name(), ns)).collect();
    let all_ns = cpu.shares_ns.total();
    amounts("phase", &of_phases, all_ns) + &amounts("share", &of_shares, all_ns) + &sources(cpu)
}

/// Renders the time of each phase or share, and its part of the whole in percent.
fn amounts(what: &str, had: &[(&str, Option<u64>)], all_ns: u64) -> String {
    let all_ns = Some(all_ns).filter(|ns| *ns > 0);
    table::of(had, |it| {
        it.name(what, |(name, _)| Some(name))
            .time("time", |(_, ns)| *ns)
            .percent("%", |(_, ns)| Some((*ns)? as f64 * 100.0 / all_ns? as f64))
    })
}

/// Renders the sources with the largest total times.
fn sources(cpu: &CpuWakeups) -> String {
    let shown = &cpu.sources[..cpu.sources.len().min(SOURCES_PER_CPU)];
    table::of(shown, |it| {
        it.name("share", |source| Some(source.share.name()))
            .name("who", |source| Some(&source.name))
            .count("wake-ups", |source| source.count)
            .time("time", |source| source.total_ns)
            .time("max", |source| source.max_ns)
    })
}
