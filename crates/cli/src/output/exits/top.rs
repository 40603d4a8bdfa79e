//! Exits by vCPU and by reason, in the columns of `perf kvm stat` and ours.

use std::time::Duration;

use vmnoise_events::{Share, ShareMap};
use vmnoise_explain::{ExitsSummary, ReasonExits, VcpuExits, VcpuTime, WorstExit};

use super::parts;
use super::powers::Powers;
use crate::output::{cells, table};
use crate::units::human;

/// The tables. What they rest on is not in them.
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
    let mut rows = Vec::new();
    for vm in &summary.vms {
        for vcpu in &vm.vcpus {
            let span_ns = vcpu.time_ns.span_ns();
            let VcpuTime { guest, taken, .. } = vcpu.time_ns;
            let percent = |ns| percent(ns, span_ns);
            let known = |ns: Option<u64>| ns.map_or_else(|| "-".into(), percent);
            rows.push([
                vm.name.to_string(),
                cells::number(vcpu.vcpu.map(u64::from)),
                format!("{:.0}", vcpu.exits as f64 / measured.as_secs_f64()),
                cells::number(vcpu.light),
                vcpu.heavy.to_string(),
                percent(guest),
                known(taken[Share::Kvm]),
                known(taken[Share::Vmm]),
                known(taken[Share::Preempted]),
                known(taken.sum_of_all(Share::HOST_INTERRUPTS)),
                known(taken[Share::Blocked]),
                known(taken[Share::Throttled]),
                known(taken[Share::Halted]),
                percent(taken[Share::Unexplained].unwrap_or(0)),
            ]);
        }
    }
    let headings = [
        "VM",
        "vCPU",
        "exits/s",
        "LW",
        "HW",
        "guest",
        "kvm",
        "vmm",
        "preempted",
        "host irq",
        "blocked",
        "throttled",
        "halted",
        "unexplained",
    ];
    // Where nobody lacks a witness the others add up without it.
    let mut vcpus = summary.vms.iter().flat_map(|vm| &vm.vcpus);
    match vcpus.any(|vcpu| vcpu.time_ns.taken[Share::Unexplained] > Some(0)) {
        true => table::columns(headings, &[0], &rows),
        false => {
            let [headings @ .., _] = headings;
            let rows: Vec<_> = rows.into_iter().map(|[row @ .., _]| row).collect();
            table::columns::<13>(headings, &[0], &rows)
        }
    }
}

/// The columns of `perf kvm stat`, then ours.
fn reasons(vcpu: &VcpuExits) -> String {
    // What a recording says of them may be made up.
    let all =
        |of: fn(&ReasonExits) -> u64| vcpu.reasons.iter().map(of).fold(0, u64::saturating_add);
    let (samples, total_ns) = (all(|reason| reason.count), all(|reason| reason.total_ns));
    let us = |ns: u64| format!("{:.2}", ns as f64 / 1e3);
    let powers = Powers::of(&vcpu.reasons);
    let rows: Vec<[String; 10]> = vcpu
        .reasons
        .iter()
        .map(|reason| {
            [
                reason.name.to_string(),
                reason.count.to_string(),
                percent(reason.count, samples),
                percent(reason.total_ns, total_ns),
                us(reason.min_ns),
                us(reason.max_ns),
                us(reason.mean_ns),
                us(reason.p99_ns),
                powers.draw(reason),
                largest(&reason.shares_ns),
            ]
        })
        .collect();
    let headings = [
        "Event",
        "Samples",
        "Sample%",
        "Time%",
        "Min us",
        "Max us",
        "Mean us",
        "p99 us",
        &powers.heading(),
        "where it went",
    ];
    table::columns(headings, &[0, 8, 9], &rows)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}", 100.0 * part as f64 / whole.max(1) as f64)
}

/// The largest shares, in percent, those that round to nothing left out.
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
    let shares = parts::by_size(&exit.shares_ns);
    for (index, (share, ns)) in shares.iter().enumerate() {
        let branch = if index + 1 == shares.len() {
            "`-"
        } else {
            "|-"
        };
        out += &format!("   {branch} {:>12}  {share}\n", human(*ns));
    }
    out
}
