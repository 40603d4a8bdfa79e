//! Tables of exits by vCPU and by reason, with the columns of `perf kvm stat` and additional
//! columns.

use std::time::Duration;

use vmnoise_events::{Share, ShareMap, human};
use vmnoise_explain::{EXIT_COLUMNS, ExitsSummary, ReasonExits, VcpuExits, VmExits, WorstExit};

use super::parts;
use super::powers::Powers;
use crate::{cells, table, tree};

/// Renders the tables, without the lines about probes and limitations.
pub fn render(measured: Duration, summary: &ExitsSummary) -> String {
    let mut out = format!(
        "VM exits, {:.1} s; times of a vCPU in % of its own\n\n{}",
        measured.as_secs_f64(),
        vcpus(measured, summary)
    );
    for vm in &summary.vms {
        for vcpu in &vm.vcpus {
            out += &format!(
                "\n{} vCPU {}\n",
                vm.name,
                cells::number(vcpu.vcpu.map(u64::from))
            );
            out += &reasons(vcpu);
            for worst in &vcpu.worst {
                out += &tree(worst);
            }
        }
    }
    out
}

fn vcpus(measured: Duration, summary: &ExitsSummary) -> String {
    let rows: Vec<(&VmExits, &VcpuExits)> = parts::vcpus(summary).collect();
    // Without unexplained time, the other columns add up to 100 %, and this column is left out.
    let is_unexplained = |(_, vcpu): &(_, &VcpuExits)| unexplained_ns(vcpu) > 0;
    let has_unexplained = rows.iter().any(is_unexplained).then_some(());
    table::of(&rows, |it| {
        it.words("VM", |(vm, _)| vm.name.as_str().into())
            .count("vCPU", |(_, vcpu)| vcpu.vcpu.map(u64::from))
            .figure("exits/s", |(_, vcpu)| {
                format!("{:.0}", vcpu.exits as f64 / measured.as_secs_f64())
            })
            .count("LW", |(_, vcpu)| vcpu.light)
            .count("HW", |(_, vcpu)| vcpu.heavy)
            .figure("guest", |(_, vcpu)| of_time(vcpu, Some(vcpu.time_ns.guest)))
            .each(EXIT_COLUMNS, |it, (title, shares)| {
                it.figure(title, |(_, vcpu)| {
                    of_time(vcpu, vcpu.time_ns.taken.sum_of_all(shares))
                })
            })
            .each(has_unexplained, |it, ()| {
                it.figure("unexplained", |(_, vcpu)| {
                    of_time(vcpu, Some(unexplained_ns(vcpu)))
                })
            })
    })
}

fn unexplained_ns(vcpu: &VcpuExits) -> u64 {
    vcpu.time_ns.taken[Share::Unexplained].unwrap_or(0)
}

/// Formats a time in percent of the vCPU's time.
fn of_time(vcpu: &VcpuExits, ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), |ns| percent(ns, vcpu.time_ns.span_ns()))
}

/// Renders a row for each reason: the columns of `perf kvm stat`, then additional columns.
fn reasons(vcpu: &VcpuExits) -> String {
    // The sum of the counts may overflow if the recording is damaged or forged.
    let all =
        |of: fn(&ReasonExits) -> u64| vcpu.reasons.iter().map(of).fold(0, u64::saturating_add);
    let (samples, total_ns) = (all(|reason| reason.count), all(|reason| reason.total_ns));
    let us = |ns: u64| format!("{:.2}", ns as f64 / 1e3);
    let powers = Powers::of(&vcpu.reasons);
    let heading = powers.heading();
    table::of(&vcpu.reasons, |it| {
        it.name("Event", |reason| Some(&reason.name))
            .count("Samples", |reason| reason.count)
            .figure("Sample%", |reason| percent(reason.count, samples))
            .figure("Time%", |reason| percent(reason.total_ns, total_ns))
            .figure("Min us", |reason| us(reason.min_ns))
            .figure("Max us", |reason| us(reason.max_ns))
            .figure("Mean us", |reason| us(reason.mean_ns))
            .figure("p99 us", |reason| us(reason.p99_ns))
            .words(&heading, |reason| powers.draw(reason).into())
            .words("where it went", |reason| largest(&reason.shares_ns).into())
    })
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}", 100.0 * part as f64 / whole.max(1) as f64)
}

/// Returns up to three shares in percent, largest first. Shares that round to 0 % are left out.
pub fn largest(taken: &ShareMap<Option<u64>>) -> String {
    let total_ns = taken.total();
    let words: Vec<String> = parts::by_size(taken)
        .into_iter()
        .map(|(share, ns)| (share, 100.0 * ns as f64 / total_ns.max(1) as f64))
        .filter(|(_, percent)| *percent >= 0.5)
        .take(3)
        .map(|(share, percent)| format!("{share} {percent:.0}%"))
        .collect();
    words.join(", ")
}

fn tree(exit: &WorstExit) -> String {
    let cpus = parts::cpus(exit.exit_cpu, exit.entry_cpu);
    let mut out = format!(
        " longest: {}, {}, {cpus}\n",
        human(exit.dur_ns),
        exit.reason
    );
    let shares = parts::by_size(&exit.shares_ns).into_iter();
    let lines = shares.map(|(share, ns)| (ns, share.to_string()));
    tree::lines(lines.collect(), &mut out);
    out
}
