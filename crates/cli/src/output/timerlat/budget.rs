//! A late wake-up as a tree, phase by phase, and the sums of a run.

use vmnoise_explain::{CpuWakeups, NamedWakeupPart, Phase, Wakeups, WorstWakeup};

use crate::output::{cells, table};
use crate::units::{human, seconds};

/// Sources beyond these are in the JSON.
const SOURCES_PER_CPU: usize = 8;

/// One wake-up; ends with a newline.
pub fn tree(wakeup: &WorstWakeup) -> String {
    let mut out = format!(
        "{:>13}  CPU {} at {}\n",
        human(wakeup.latency_ns),
        wakeup.cpu,
        seconds(wakeup.at_ns)
    );
    let last = wakeup.parts.len().saturating_sub(1);
    for (index, part) in wakeup.parts.iter().enumerate() {
        let branch = if index == last { '`' } else { '|' };
        out += &format!(
            "   {branch}- {:>12}  {:<10}  {:<12} {}",
            human(part.ns),
            phase(part.phase),
            part.share.name(),
            who(part)
        );
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

pub fn who(part: &NamedWakeupPart) -> &str {
    match &part.source {
        Some(name) => name,
        None if part.share.is_residual() => "(residual)",
        None => "",
    }
}

/// What a phase is called; one that is unknown is not told apart from others.
pub fn phase(phase: Option<Phase>) -> &'static str {
    phase.map_or("-", Phase::name)
}

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
    let all_ns = cpu.shares_ns.total();
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
