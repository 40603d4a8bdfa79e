//! The summary for people: where the time went, who took it, and the longest gaps as
//! budgets.

use vmnoise_events::{RunFacts, Workload};
use vmnoise_explain::{CpuSummary, Summary};

use super::cells::{number, percent, time};
use super::tree::tree;
use super::{caveats, fed, table};
use crate::units::human;

/// Sources beyond these are in the JSON.
const SOURCES_PER_CPU: usize = 12;

/// The whole result. Ends with a newline.
pub fn render(facts: &RunFacts, summary: &Summary) -> String {
    let mut text = String::new();
    if let Some(gap) = &summary.stopped_by {
        text += &format!("Stopped by this gap:\n{}\n", tree(gap));
    }
    text += &headline(facts);
    text += &format!("\n{}", overview(&summary.cpus));
    for cpu in &summary.cpus {
        text += &format!("\nWhere the noise of CPU {} went\n{}", cpu.cpu, shares(cpu));
        text += &outer_steal(cpu);
        text += &format!("\nWho took it\n{}", sources(cpu));
    }
    if !summary.worst.is_empty() {
        text += &format!("\nThe {} longest gaps\n", summary.worst.len());
        for gap in &summary.worst {
            text += &tree(gap);
        }
    }
    text += &fed::render(summary);
    text += &format!("\n{}", periodic(summary));
    text += &format!("\n{}", caveats::render(facts, summary));
    text
}

fn headline(facts: &RunFacts) -> String {
    let (who, itself) = match facts.workload {
        Workload::Microvm => ("A VM on this host", "itself "),
        Workload::Spin => ("A polling thread on this machine", ""),
        Workload::Observed => ("A thread on this machine", ""),
        Workload::Vcpus => ("The VMs of this host", ""),
        Workload::Timer => ("Periodic tasks on this machine", ""),
    };
    let below = match &facts.host.hypervisor {
        Some(name) => format!(", {itself}a guest of {name}"),
        None => String::new(),
    };
    format!(
        "{who} ({}, kernel {}{below}), gaps of {} and more\n",
        facts.host.cpu_model,
        facts.host.kernel,
        human(facts.options.threshold_ns),
    )
}

fn overview(cpus: &[CpuSummary]) -> String {
    let rows: Vec<[String; 14]> = cpus
        .iter()
        .map(|cpu| {
            let percentiles = &cpu.percentiles_ns;
            let host = cpu.host.as_ref().map(|host| &host.told);
            [
                cpu.cpu.to_string(),
                time(cpu.runtime_ns),
                cpu.gaps.to_string(),
                human(cpu.noise_ns),
                percent(cpu.noise_percent),
                percent(cpu.cpu_available_percent),
                time(percentiles.p50),
                time(percentiles.p99),
                time(percentiles.p999),
                time(cpu.max_gap_ns),
                time(cpu.steal_clock_ns),
                number(cpu.exits.light.or(host.and_then(|told| told.light))),
                number(cpu.exits.heavy.or(host.map(|told| told.heavy))),
                number(cpu.exits.reloads),
            ]
        })
        .collect();
    let headings = [
        "CPU",
        "runtime",
        "gaps",
        "noise",
        "noise %",
        "CPU avail %",
        "p50",
        "p99",
        "p99.9",
        "max",
        "steal clock",
        "LW_EX",
        "HW_EX",
        "reloads",
    ];
    table::columns(headings, &[], &rows)
}

/// Shares that took time, and those that nobody could see here.
pub fn shares(cpu: &CpuSummary) -> String {
    let rows: Vec<[String; 3]> = cpu
        .shares_ns
        .iter()
        .filter(|(_, ns)| ns.is_none_or(|ns| ns > 0))
        .map(|(share, ns)| {
            let of_noise = ns.filter(|_| cpu.noise_ns > 0);
            let of_noise = of_noise.map(|ns| ns as f64 * 100.0 / cpu.noise_ns as f64);
            [share.to_string(), time(ns), percent(of_noise)]
        })
        .collect();
    table::columns(["share", "time", "% of noise"], &[0], &rows)
}

/// What a machine below may have had of the residual.
fn outer_steal(cpu: &CpuSummary) -> String {
    match cpu.outer_steal_ns {
        Some(ns) => format!(
            " of the residual at most {} was the scheduler of the host below (its steal clock)\n",
            human(ns)
        ),
        None => String::new(),
    }
}

fn sources(cpu: &CpuSummary) -> String {
    let rows: Vec<[String; 6]> = cpu
        .sources
        .iter()
        .take(SOURCES_PER_CPU)
        .map(|source| {
            let mean_ns = source.total_ns / source.count.max(1);
            [
                source.name.to_string(),
                source.share.to_string(),
                source.count.to_string(),
                human(source.total_ns),
                human(mean_ns),
                human(source.max_ns),
            ]
        })
        .collect();
    let mut text = table::columns(
        ["source", "share", "count", "total", "mean", "max"],
        &[0, 1],
        &rows,
    );
    if let Some(more) = cpu
        .sources
        .len()
        .checked_sub(SOURCES_PER_CPU)
        .filter(|more| *more > 0)
    {
        text += &format!(" … and {more} more (--format json lists all)\n");
    }
    text
}

pub fn periodic(summary: &Summary) -> String {
    if summary.periodic.is_empty() {
        return "Periodic residual: none found\n".into();
    }
    let mut text = String::new();
    for found in &summary.periodic {
        text += &format!(
            "Periodic residual: CPU {} loses {} every {:.6} ms (jitter {}, {} times): {:.1} % of its residual\n",
            found.cpu,
            human(found.mean_gap_ns),
            found.period_ns as f64 / 1e6,
            human(found.jitter_ns),
            found.gaps,
            found.share_of_residual * 100.0,
        );
    }
    text
}
