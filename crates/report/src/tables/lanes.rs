//! Each lane with its percentiles, and every share of it.

use vmnoise_events::{Share, ShareMap};

use super::{NUMBER, Table, WORD, exits, number, share_of, time, words};
use crate::run::{Outcome, Run};
use crate::shares::label;

/// CPUs whose shares stand beside each other; more stand below each other.
const CPUS: usize = 16;

/// Each lane, with its percentiles.
pub(super) fn overview(run: &Run) -> Table {
    match &run.outcome {
        _ if run.is_of_tasks() => latencies(run),
        Outcome::Gaps(_) | Outcome::Joined(_) | Outcome::Wakeups(_) => gaps(run),
        Outcome::Exits(_) => exits::vcpus(run),
    }
}

fn gaps(run: &Run) -> Table {
    let mut table = Table::new(
        "Percentiles of gaps, CPU by CPU",
        &[
            ("CPU", WORD),
            ("runtime", NUMBER),
            ("gaps", NUMBER),
            ("noise", NUMBER),
            ("of the time", NUMBER),
            ("p50", NUMBER),
            ("p90", NUMBER),
            ("p99", NUMBER),
            ("p99.9", NUMBER),
            ("longest", NUMBER),
            ("steal clock", NUMBER),
        ],
    );
    for cpu in run.summary().into_iter().flat_map(|summary| &summary.cpus) {
        table.rows.push(vec![
            words(run.name_of(cpu.cpu)),
            time(cpu.runtime_ns),
            number(cpu.gaps),
            time(cpu.noise_ns),
            share_of(cpu.noise_percent),
            time(cpu.percentiles_ns.p50),
            time(cpu.percentiles_ns.p90),
            time(cpu.percentiles_ns.p99),
            time(cpu.percentiles_ns.p999),
            time(cpu.max_gap_ns),
            time(cpu.steal_clock_ns),
        ]);
    }
    table
}

fn latencies(run: &Run) -> Table {
    let mut table = Table::new(
        "Latencies, CPU by CPU",
        &[
            ("CPU", WORD),
            ("until", WORD),
            ("wake-ups", NUMBER),
            ("least", NUMBER),
            ("mean", NUMBER),
            ("p50", NUMBER),
            ("p99", NUMBER),
            ("p99.9", NUMBER),
            ("latest", NUMBER),
        ],
    );
    table.note =
        "From the planned expiry. The last line of a CPU is what it would have been had no \
                  task waited for the one before."
            .into();
    for cpu in run.wakeups().into_iter().flat_map(|wakeups| &wakeups.cpus) {
        for (until, figures) in [
            ("its interrupt", cpu.irq),
            ("switched in", cpu.thread),
            ("user space", cpu.user),
            ("user space, corrected", cpu.corrected),
        ] {
            let Some(it) = figures else { continue };
            table.rows.push(vec![
                words(run.name_of(cpu.cpu)),
                words(until),
                number(it.count),
                time(it.min_ns),
                time(it.mean_ns),
                time(it.p50_ns),
                time(it.p99_ns),
                time(it.p999_ns),
                time(it.max_ns),
            ]);
        }
    }
    table
}

/// Every share of each lane, `-` where nobody could see it.
pub(super) fn shares(run: &Run) -> Table {
    let mut totals: Vec<(String, ShareMap<Option<u64>>)> = Vec::new();
    if let Some(summary) = run.summary() {
        for cpu in &summary.cpus {
            let wakeups = summary.wakeups.as_ref();
            let of_wakeups = wakeups.and_then(|it| it.cpus.iter().find(|it| it.cpu == cpu.cpu));
            let shares = of_wakeups.map_or(&cpu.shares_ns, |it| &it.shares_ns);
            totals.push((format!("CPU {}", cpu.cpu), *shares));
        }
    }
    match totals.len() {
        0 => Table::default(),
        1..=CPUS => share_by_share(&totals),
        _ => cpu_by_cpu(&totals),
    }
}

const UNKNOWN: &str = "- is what could not be known here; it is not zero.";

fn share_by_share(totals: &[(String, ShareMap<Option<u64>>)]) -> Table {
    let mut columns = vec![("share", WORD)];
    columns.extend(totals.iter().map(|(name, _)| (&**name, NUMBER)));
    let mut table = Table::new("Every share", &columns);
    table.note = UNKNOWN.into();
    for share in Share::ALL {
        let mut row = vec![words(label(share))];
        row.extend(totals.iter().map(|(_, known)| time(known[share])));
        table.rows.push(row);
    }
    table
}

/// Many CPUs go down the page, and only shares that took time go across.
fn cpu_by_cpu(totals: &[(String, ShareMap<Option<u64>>)]) -> Table {
    let took = |share: &Share| totals.iter().any(|(_, known)| known[*share] > Some(0));
    let shown: Vec<Share> = Share::ALL.into_iter().filter(took).collect();
    let mut columns = vec![("CPU", WORD)];
    columns.extend(shown.iter().map(|share| (label(*share), NUMBER)));
    let mut table = Table::new("Every share", &columns);
    table.note = format!("{UNKNOWN} Shares that are 0 or unknown on all CPUs are left out.");
    for (name, known) in totals {
        let mut row = vec![words(name.clone())];
        row.extend(shown.iter().map(|share| time(known[*share])));
        table.rows.push(row);
    }
    table
}
