//! What the host of a guest says it took, from its feed.

use vmnoise_explain::{CpuSummary, CulpritTold, FedCpu, ReasonTold, Summary};

use super::{table, text};
use crate::units::human;

/// Names of one CPU beyond these are in the JSON.
const NAMES_PER_CPU: usize = 12;

/// Its tables, behind an empty line; empty where no host told anything.
pub fn render(summary: &Summary) -> String {
    let fed = || {
        let cpus = summary.cpus.iter();
        cpus.filter_map(|cpu| Some((cpu, cpu.host.as_ref()?)))
    };
    if fed().next().is_none() {
        return String::new();
    }
    let rows: Vec<[String; 14]> = fed().map(|(cpu, host)| amounts(cpu, host)).collect();
    let headings = [
        "CPU",
        "told of",
        "LW_EX",
        "HW_EX",
        "kvm",
        "vmm",
        "preempted",
        "host irq",
        "blocked",
        "throttled",
        "halted",
        "HW_NOISE >=",
        "HW_NOISE <=",
        "lost",
    ];
    let mut out = format!(
        "\nWhat was taken, says the host\n{}",
        table::columns(headings, &[], &rows)
    );
    let reasons = names(fed(), |host| host.reasons.as_deref(), reason);
    if let Some(rows) = reasons {
        let headings = ["CPU", "reason", "exits", "time"];
        out += "\nWhy the vCPU left its guest, says the host\n";
        out += &table::columns(headings, &[1], &rows);
    }
    let culprits = names(fed(), |host| host.culprits.as_deref(), culprit);
    if let Some(rows) = culprits {
        let headings = ["CPU", "source", "share", "total"];
        out += "\nWho took it, says the host\n";
        out += &table::columns(headings, &[1, 2], &rows);
    }
    out
}

/// What the feed itself was, as one of the last lines; empty where there was none.
pub fn limits(summary: &Summary) -> String {
    let Some(feed) = &summary.feed else {
        return String::new();
    };
    let detail = feed.detail.map_or("-", |detail| detail.name());
    format!(
        " feed of the host ({detail}): {} frames, {} bytes; refused as untrue {}, damaged {}, \
         hang-ups {}; the interrupts that bring it are noise of this guest, by their device's name\n",
        feed.frames, feed.bytes, feed.refused, feed.garbled, feed.hang_ups,
    )
}

fn amounts(cpu: &CpuSummary, host: &FedCpu) -> [String; 14] {
    let told = &host.told;
    let shares = &told.shares_ns;
    let host_irq_ns = [shares.host_irq, shares.host_softirq, shares.host_nmi];
    let host_irq_ns = host_irq_ns.into_iter().fold(0, u64::saturating_add);
    [
        cpu.cpu.to_string(),
        human(told.covered_ns),
        text::number(told.light),
        told.heavy.to_string(),
        text::time(shares.kvm),
        human(shares.vmm),
        human(shares.preempted),
        human(host_irq_ns),
        human(shares.blocked),
        human(shares.throttled),
        human(shares.halted),
        human(told.hw_at_least_ns),
        text::time(told.hw_at_most_ns),
        told.lost.to_string(),
    ]
}

fn reason(told: &ReasonTold) -> [String; 3] {
    [
        told.name.clone(),
        told.exits.to_string(),
        human(told.total_ns),
    ]
}

fn culprit(told: &CulpritTold) -> [String; 3] {
    [
        told.name.clone(),
        told.share.to_string(),
        human(told.total_ns),
    ]
}

/// A row for each name of each CPU; `None` where no CPU's host tells them.
fn names<'a, T: 'a>(
    fed: impl Iterator<Item = (&'a CpuSummary, &'a FedCpu)>,
    of: impl Fn(&'a FedCpu) -> Option<&'a [T]>,
    row: impl Fn(&T) -> [String; 3],
) -> Option<Vec<[String; 4]>> {
    let mut rows = None;
    for (cpu, told) in fed.filter_map(|(cpu, host)| Some((cpu, of(host)?))) {
        let rows = rows.get_or_insert_with(Vec::new);
        rows.extend(told.iter().take(NAMES_PER_CPU).map(|told| {
            let [a, b, c] = row(told);
            [cpu.cpu.to_string(), a, b, c]
        }));
    }
    rows
}
