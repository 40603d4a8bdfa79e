//! The summary for people: where the time went, who took it, the longest gaps as
//! budgets, and last what this run cannot know.

use vmnoise_events::{ClockSource, LossKind, RunFacts, Rung, Share, Workload};
use vmnoise_explain::{CpuSummary, NamedPart, Summary, WorstGap};

use super::table;
use crate::units::{human, seconds};

/// Sources beyond these are in the JSON.
const SOURCES_PER_CPU: usize = 12;
/// One `rdtsc` beyond this is not the processor answering but a hypervisor.
const EMULATED_RDTSC_NS: u64 = 1_000;

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
        text += &format!("\nWho took it\n{}", sources(cpu));
    }
    if !summary.worst.is_empty() {
        text += &format!("\nThe {} longest gaps\n", summary.worst.len());
        for gap in &summary.worst {
            text += &tree(gap);
        }
    }
    text += &format!("\n{}", periodic(summary));
    text += &format!("\n{}", honesty(facts, summary));
    text
}

fn headline(facts: &RunFacts) -> String {
    let (who, itself) = match facts.workload {
        Workload::Microvm => ("A VM on this host", "itself "),
        Workload::Spin => ("A polling thread on this machine", ""),
        Workload::Observed => ("A thread on this machine", ""),
        Workload::Vcpus => ("The VMs of this host", ""),
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
                number(cpu.exits.light),
                number(cpu.exits.heavy),
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
fn shares(cpu: &CpuSummary) -> String {
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
    let outer = match cpu.outer_steal_ns {
        Some(ns) => format!(
            " of the residual at most {} was the scheduler of the host below (its steal clock)\n",
            human(ns)
        ),
        None => String::new(),
    };
    table::columns(["share", "time", "% of noise"], &[0], &rows) + &outer
}

fn sources(cpu: &CpuSummary) -> String {
    let rows: Vec<[String; 6]> = cpu
        .sources
        .iter()
        .take(SOURCES_PER_CPU)
        .map(|source| {
            let mean_ns = source.total_ns / source.count.max(1);
            [
                source.name.clone(),
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

/// One gap and its budget; the parts add up to the first line.
pub fn tree(gap: &WorstGap) -> String {
    let lost = match gap.lost_activities {
        None | Some(0) => String::new(),
        Some(lost) => format!("; {lost} of its activities lost: who is named is a lower bound"),
    };
    let mut text = format!(
        " {:>12}  CPU {} at {}{lost}\n",
        human(gap.dur_ns),
        gap.cpu,
        seconds(gap.at_ns)
    );
    for (index, part) in gap.parts.iter().enumerate() {
        let branch = if index + 1 == gap.parts.len() {
            "`-"
        } else {
            "|-"
        };
        let line = format!(
            "   {branch} {:>12}  {:<12} {}",
            human(part.ns),
            part.share,
            who(part)
        );
        text += line.trim_end();
        text += "\n";
    }
    text
}

/// Who took a part; empty where nobody can be named.
pub fn who(part: &NamedPart) -> String {
    match (&part.source, part.count) {
        (None, _) if part.share.is_residual() => "(residual)".into(),
        (None, _) => String::new(),
        (Some(name), 0 | 1) => name.clone(),
        (Some(name), count) => format!("{name} x{count}"),
    }
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

/// How it was witnessed, and what that cannot show.
pub fn rungs(rungs: &[Rung]) -> String {
    let mut text = String::from("What this result rests on\n");
    for rung in rungs {
        text += &format!(" {}: {}", rung.probe, rung.rung);
        if !rung.limit.is_empty() {
            text += &format!("; {}", rung.limit);
        }
        text += "\n";
    }
    text
}

/// The last lines, always: rungs, losses, clock bound, own cost, what stays unexplained.
pub fn honesty(facts: &RunFacts, summary: &Summary) -> String {
    let mut text = rungs(&summary.rungs);
    if facts.clock.source == ClockSource::UnstableTsc {
        text += " the kernel does not use the TSC as its clock: it may not be constant\n";
    }
    if facts.shares_cpu {
        text += " the tool's own threads ran on measured CPUs: they are part of the noise\n";
    }
    let rdtsc_ns = facts.rdtsc_cycles.saturating_mul(1_000_000_000) / facts.clock.tsc_hz.max(1);
    if rdtsc_ns > EMULATED_RDTSC_NS {
        text += &format!(" reading the TSC takes {rdtsc_ns} ns: a hypervisor emulates it\n");
    }
    text += &format!(
        " lost events: {}{}, late: {}\n",
        summary.lost_events,
        losses(summary),
        summary.late_events
    );
    let incomplete_gaps = summary.cpus.iter().filter_map(|cpu| cpu.incomplete_gaps);
    let incomplete_gaps: u64 = incomplete_gaps.sum();
    if incomplete_gaps > 0 {
        text += &format!(
            " gaps with lost activities: {incomplete_gaps}; what they leave over is booked unexplained\n"
        );
    }
    text += &exit_check(facts, summary);
    for cpu in &summary.cpus {
        if let Some(count) = cpu.smi_count {
            text += &format!(" SMIs of CPU {}: {count}\n", cpu.cpu);
        }
    }
    text += &steal_outside_gaps(facts, summary);
    text += &format!(" clock bound: {}\n", time(summary.clock_bound_ns));
    text += &format!(
        " own cost: {} BPF runs, {} in all ({} % of a measured CPU's time)\n",
        number(summary.own_cost.bpf_runs),
        time(summary.own_cost.bpf_ns),
        percent(summary.own_cost.percent_of_runtime),
    );
    text += &format!(
        " unexplained: {} % of the noise is residual\n",
        percent(summary.residual_percent_of_noise)
    );
    if !summary.complete {
        text += " the run did not end in order: this is what it had seen so far\n";
    }
    text
}

/// Where every exit is witnessed, KVM's own count is an independent check on it.
fn exit_check(facts: &RunFacts, summary: &Summary) -> String {
    let mut text = String::new();
    for cpu in summary.cpus.iter().filter(|_| facts.witnesses.kvm_exit) {
        if let (Some(light), Some(heavy), Some(all)) =
            (cpu.exits.light, cpu.exits.heavy, cpu.exits.kvm_stat)
        {
            text += &format!(
                " exits of CPU {}: {} witnessed, {all} by KVM's own statistics\n",
                cpu.cpu,
                light + heavy
            );
        }
    }
    text
}

/// What a hypervisor takes while an observed thread runs is in no gap; its sum is known.
fn steal_outside_gaps(facts: &RunFacts, summary: &Summary) -> String {
    let mut text = String::new();
    for cpu in summary
        .cpus
        .iter()
        .filter(|_| facts.workload == Workload::Observed)
    {
        if let (Some(clock_ns), Some(booked_ns)) =
            (cpu.steal_clock_ns, cpu.shares_ns.get(Share::Steal))
        {
            text += &format!(
                " steal while the thread could run on CPU {}: {} by the steal clock, {} of it in gaps\n",
                cpu.cpu,
                human(clock_ns),
                human(booked_ns),
            );
        }
    }
    text
}

fn losses(summary: &Summary) -> String {
    let kinds: Vec<String> = summary
        .losses
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count): (LossKind, u64)| format!("{} {count}", kind.name()))
        .collect();
    if kinds.is_empty() {
        String::new()
    } else {
        format!(" ({}): maxima are lower bounds", kinds.join(", "))
    }
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), human)
}

pub fn number(count: Option<u64>) -> String {
    count.map_or_else(|| "-".into(), |count| count.to_string())
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.3}"))
}
