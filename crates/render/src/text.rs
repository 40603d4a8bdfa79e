//! Summary as text for people: shares, culprits, and the longest gaps with their budgets.

use vmnoise_events::{MeasuringCommand, RunFacts, human};
use vmnoise_explain::{CpuSummary, Summary, TablePlace, cpu_columns};

use super::tree::tree;
use super::{caveats, from_feed, table};

/// Maximum number of sources that are printed for one CPU; the JSON contains all.
const SOURCES_PER_CPU: usize = 12;

/// Renders the whole result; the text ends with a newline.
pub fn render(facts: &RunFacts, summary: &Summary) -> String {
    let mut text = caveats::no_names(facts);
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
    text += &from_feed::render(summary);
    text += &format!("\n{}", periodic(summary));
    text += &format!("\n{}", caveats::render(facts, summary));
    text
}

fn headline(facts: &RunFacts) -> String {
    let (who, itself) = match facts.workload {
        MeasuringCommand::Microvm => ("A VM on this host", "itself "),
        MeasuringCommand::Osnoise => ("A polling thread on this machine", ""),
        MeasuringCommand::Observed => ("A thread on this machine", ""),
        MeasuringCommand::Exits => ("The VMs of this host", ""),
        MeasuringCommand::Timerlat => ("Periodic tasks on this machine", ""),
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
    table::of(cpus, |it| {
        it.count("CPU", |cpu| u64::from(cpu.cpu))
            .and(cpu_columns(TablePlace::Text))
    })
}

/// Renders the shares that took time, and the shares that are unknown.
pub fn shares(cpu: &CpuSummary) -> String {
    let shares = cpu.shares_ns.iter();
    let shares = shares.filter(|(_, ns)| ns.is_none_or(|ns| ns > 0));
    let noise_ns = Some(cpu.noise_ns).filter(|ns| *ns > 0);
    table::of(&shares.collect::<Vec<_>>(), |it| {
        it.name("share", |(share, _)| Some(share.name()))
            .time("time", |(_, ns)| *ns)
            .percent("% of noise", |(_, ns)| {
                Some((*ns)? as f64 * 100.0 / noise_ns? as f64)
            })
    })
}

/// Renders an upper bound of the part of the residual that the host of this machine took.
fn outer_steal(cpu: &CpuSummary) -> String {
    match cpu.outer_steal_ns {
        Some(ns) => format!(
            " at most {} of the residual was taken by the scheduler of the host below (its steal clock)\n",
            human(ns)
        ),
        None => String::new(),
    }
}

fn sources(cpu: &CpuSummary) -> String {
    let (shown, others) = cpu.sources.split_at(cpu.sources.len().min(SOURCES_PER_CPU));
    let mut text = table::of(shown, |it| {
        it.name("source", |source| Some(&source.name))
            .name("share", |source| Some(source.share.name()))
            .count("count", |source| source.count)
            .time("total", |source| source.total_ns)
            .time("mean", |source| source.total_ns / source.count.max(1))
            .time("max", |source| source.max_ns)
    });
    if !others.is_empty() {
        let more = others.len();
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
