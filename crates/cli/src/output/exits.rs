//! Exits as people and programs read them.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::{HostFacts, Rung, Share};
use vmnoise_explain::{ExitsSummary, Taken, VcpuExits, WorstExit};

use super::{json, screen, table, text};
use crate::args::Format;
use crate::units::human;

/// A result and what it stands on.
pub struct Exits<'a> {
    /// Version of this program.
    pub tool_version: &'static str,
    /// The machine.
    pub facts: &'a HostFacts,
    /// Wall-clock start, RFC 3339 in UTC.
    pub started_at: &'a str,
    /// How long was counted.
    pub measured_ns: u64,
    /// What was counted.
    pub summary: &'a ExitsSummary,
    /// Events that the programs missed.
    pub lost_events: u64,
    /// vCPUs that found no room.
    pub lost_vcpus: u64,
    /// How it was witnessed.
    pub rungs: Vec<Rung>,
}

/// `vmnoise.exits/1`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool_version: &'a str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: &'a str,
    measured_ns: u64,
    #[serde(flatten)]
    summary: &'a ExitsSummary,
    lost_events: u64,
    lost_vcpus: u64,
    rungs: &'a [Rung],
}

/// Prints a result.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(exits: &Exits<'_>, format: Format) -> Result<()> {
    match format {
        Format::Text => {
            let measured = Duration::from_nanos(exits.measured_ns);
            let mut out = tables(measured, exits.summary);
            out += &text::rungs(&exits.rungs);
            if exits.lost_vcpus > 0 {
                out += &format!(
                    "{} vCPUs found no room and are not counted\n",
                    exits.lost_vcpus
                );
            }
            out += &format!(" lost events: {}\n", exits.lost_events);
            super::write(out.as_bytes())
        }
        Format::Json => {
            let document = Document {
                schema: "vmnoise.exits/1",
                tool_version: exits.tool_version,
                kernel: &exits.facts.kernel,
                hypervisor: exits.facts.hypervisor.as_deref(),
                started_at: exits.started_at,
                measured_ns: exits.measured_ns,
                summary: exits.summary,
                lost_events: exits.lost_events,
                lost_vcpus: exits.lost_vcpus,
                rungs: &exits.rungs,
            };
            let mut out = Vec::new();
            json::write(&mut out, &document)?;
            super::write(&out)
        }
    }
}

/// Draws what was counted so far over what is on the terminal.
pub fn redraw(measured: Duration, summary: &ExitsSummary) {
    screen::redraw(&tables(measured, summary));
}

fn tables(measured: Duration, summary: &ExitsSummary) -> String {
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
                text::number(vcpu.vcpu.map(u64::from))
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
            let time = vcpu.time_ns;
            let host_ns = time.taken.host_irq + time.taken.host_softirq + time.taken.host_nmi;
            let span_ns = time.guest + parts(&time.taken).map(|(_, ns)| ns).sum::<u64>();
            let percent = |ns: u64| format!("{:.2}", 100.0 * ns as f64 / span_ns.max(1) as f64);
            rows.push([
                vm.name.clone(),
                text::number(vcpu.vcpu.map(u64::from)),
                vcpu.tid.to_string(),
                format!("{:.0}", vcpu.exits as f64 / measured.as_secs_f64()),
                text::number(vcpu.light),
                vcpu.heavy.to_string(),
                percent(time.guest),
                time.taken.kvm.map_or_else(|| "-".into(), percent),
                percent(time.taken.vmm),
                percent(time.taken.preempted),
                percent(host_ns),
                percent(time.taken.blocked + time.taken.throttled),
                percent(time.taken.halted),
            ]);
        }
    }
    let headings = [
        "VM",
        "vCPU",
        "TID",
        "exits/s",
        "LW",
        "HW",
        "guest",
        "kvm",
        "vmm",
        "preempted",
        "host irq",
        "blocked",
        "halted",
    ];
    table::columns(headings, 1, &rows)
}

/// The columns of `perf kvm stat`, then ours.
fn reasons(vcpu: &VcpuExits) -> String {
    let samples: u64 = vcpu.reasons.iter().map(|reason| reason.count).sum();
    let total_ns: u64 = vcpu.reasons.iter().map(|reason| reason.total_ns).sum();
    let percent =
        |part: u64, whole: u64| format!("{:.2}", 100.0 * part as f64 / whole.max(1) as f64);
    let us = |ns: u64| format!("{:.2}", ns as f64 / 1e3);
    let rows: Vec<[String; 9]> = vcpu
        .reasons
        .iter()
        .map(|reason| {
            [
                reason.name.clone(),
                reason.count.to_string(),
                percent(reason.count, samples),
                percent(reason.total_ns, total_ns),
                us(reason.min_ns),
                us(reason.max_ns),
                us(reason.mean_ns),
                us(reason.p99_ns),
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
        "where it went",
    ];
    table::columns(headings, 1, &rows)
}

/// The shares of a time, those unknown left out.
fn parts(taken: &Taken) -> impl Iterator<Item = (Share, u64)> {
    [
        (Share::Kvm, taken.kvm.unwrap_or(0)),
        (Share::Vmm, taken.vmm),
        (Share::Preempted, taken.preempted),
        (Share::Blocked, taken.blocked),
        (Share::Throttled, taken.throttled),
        (Share::HostIrq, taken.host_irq),
        (Share::HostSoftirq, taken.host_softirq),
        (Share::HostNmi, taken.host_nmi),
        (Share::Halted, taken.halted),
    ]
    .into_iter()
}

fn by_size(taken: &Taken) -> Vec<(Share, u64)> {
    let mut shares: Vec<_> = parts(taken).filter(|(_, ns)| *ns > 0).collect();
    shares.sort_by_key(|(share, ns)| (std::cmp::Reverse(*ns), *share));
    shares
}

/// The three largest shares, in percent.
fn largest(taken: &Taken) -> String {
    let total_ns: u64 = parts(taken).map(|(_, ns)| ns).sum();
    let percent = |ns: u64| 100.0 * ns as f64 / total_ns.max(1) as f64;
    let words: Vec<String> = by_size(taken)
        .into_iter()
        .take(3)
        .map(|(share, ns)| format!("{share} {:.0} %", percent(ns)))
        .collect();
    words.join(", ")
}

fn tree(exit: &WorstExit) -> String {
    let cpus = if exit.exit_cpu == exit.entry_cpu {
        format!("CPU {}", exit.exit_cpu)
    } else {
        format!("CPU {} to CPU {}", exit.exit_cpu, exit.entry_cpu)
    };
    let mut out = format!(
        " longest: {}, {}, {cpus}\n",
        human(exit.dur_ns),
        exit.reason
    );
    let shares = by_size(&exit.shares_ns);
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
