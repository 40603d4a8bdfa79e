//! Where the latencies of a run came from.

use vmnoise_explain::{CpuWakeups, Phase, Wakeups};

use crate::output::{cells, table};
use crate::units::human;

/// Sources beyond these are in the JSON.
const SOURCES_PER_CPU: usize = 8;

/// Where the latencies of each CPU went.
pub fn sums(wakeups: &Wakeups) -> String {
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

/// What must be known of the figures of a CPU; empty if nothing must.
pub fn flaws(cpu: &CpuWakeups) -> String {
    let mut out = String::new();
    if cpu.missed > 0 {
        out += &format!(
            " {} periods were missed: as if nobody had waited for the wake-up before, p99 is {}, p99.9 {}\n",
            cpu.missed,
            cells::time(cpu.corrected.map(|figures| figures.p99_ns)),
            cells::time(cpu.corrected.map(|figures| figures.p999_ns)),
        );
    }
    if cpu.incomplete > 0 {
        out += &format!(
            " wake-ups of which a step was not seen: {}; their phases are unknown there\n",
            cpu.incomplete
        );
    }
    out
}

fn of(cpu: &CpuWakeups) -> String {
    let all_ns = cpu.shares_ns.known_sum_ns();
    let percent = |ns: Option<u64>| {
        let of_all = ns.filter(|_| all_ns > 0);
        cells::percent(of_all.map(|ns| ns as f64 * 100.0 / all_ns as f64))
    };
    let phases = &cpu.phases_ns;
    let phases = [
        (Phase::ArmedLate.name(), phases.armed_late),
        (Phase::Irq.name(), phases.irq),
        (Phase::Handler.name(), phases.handler),
        (Phase::Wakeup.name(), phases.wakeup),
        (Phase::Return.name(), phases.return_),
        ("not told apart", Some(phases.unsplit).filter(|ns| *ns > 0)),
    ];
    let row = |name: &str, ns: Option<u64>| [name.to_owned(), cells::time(ns), percent(ns)];
    let is_there = |(name, ns): &(&str, Option<u64>)| ns.is_some() || *name != "not told apart";
    let phases = phases.iter().filter(|it| is_there(it));
    let phases: Vec<_> = phases.map(|(name, ns)| row(name, *ns)).collect();
    let shares = cpu
        .shares_ns
        .iter()
        .filter(|(_, ns)| ns.is_some_and(|ns| ns > 0));
    let shares: Vec<_> = shares.map(|(share, ns)| row(share.name(), ns)).collect();
    table::columns(["phase", "time", "%"], &[0], &phases)
        + &table::columns(["share", "time", "%"], &[0], &shares)
        + &sources(cpu)
}

/// Who took most of it.
fn sources(cpu: &CpuWakeups) -> String {
    let rows = cpu.sources.iter().take(SOURCES_PER_CPU);
    let rows: Vec<_> = rows
        .map(|source| {
            [
                source.share.name().to_owned(),
                source.name.to_string(),
                source.count.to_string(),
                human(source.total_ns),
                human(source.max_ns),
            ]
        })
        .collect();
    let headings = ["share", "who", "wake-ups", "time", "max"];
    table::columns(headings, &[0, 1], &rows)
}
