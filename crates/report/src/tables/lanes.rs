//! Tables of percentiles and shares for each CPU or vCPU.

use vmnoise_events::{Share, ShareMap};
use vmnoise_explain::{LatencyRow, TablePlace, cpu_columns, latency_columns};

use super::{Table, exits};
use crate::run::{ReportedRun, RunOutcome};
use crate::shares::label;

/// Largest number of CPUs for which the shares are shown in columns. More CPUs are shown in rows.
const CPUS: usize = 16;

/// Returns a row with percentiles for each CPU or vCPU.
pub(super) fn overview(run: &ReportedRun) -> Table {
    match &run.outcome {
        _ if run.is_of_tasks() => latencies(run),
        RunOutcome::Gaps(_) | RunOutcome::Joined(_) | RunOutcome::Wakeups(_) => gaps(run),
        RunOutcome::Exits(_) => exits::vcpus(run),
    }
}

fn gaps(run: &ReportedRun) -> Table {
    let cpus = run.summary().map_or(&[][..], |summary| &summary.cpus);
    Table::of("Percentiles of gaps, CPU by CPU", cpus, |it| {
        it.words("CPU", |cpu| run.name_of(cpu.cpu).into())
            .and(cpu_columns(TablePlace::Page))
    })
}

fn latencies(run: &ReportedRun) -> Table {
    let cpus = run.wakeups().into_iter().flat_map(|wakeups| &wakeups.cpus);
    let rows = cpus.flat_map(|cpu| {
        let figures = [
            ("its interrupt", cpu.irq),
            ("switched in", cpu.thread),
            ("user space", cpu.user),
            ("user space, corrected", cpu.corrected),
        ];
        let seen = figures.into_iter().filter(|(_, figures)| figures.is_some());
        seen.map(|(until, figures)| LatencyRow {
            cpu: cpu.cpu,
            until,
            figures,
        })
    });
    let rows: Vec<LatencyRow> = rows.collect();
    let table = Table::of("Latencies, CPU by CPU", &rows, |it| {
        it.words("CPU", |row| run.name_of(row.cpu).into())
            .and(latency_columns(TablePlace::Page))
    });
    table.noted(
        "Latencies count from the planned expiry. The last line of a CPU is corrected for missed \
                  periods (coordinated omission).",
    )
}

/// Returns all shares of each CPU or vCPU; `-` if a share could not be observed.
pub(super) fn shares(run: &ReportedRun) -> Table {
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

const UNKNOWN: &str = "- means unknown, not zero.";

fn share_by_share(totals: &[(String, ShareMap<Option<u64>>)]) -> Table {
    let table = Table::of("Every share", &Share::ALL, |it| {
        it.name("share", |share| Some(label(*share)))
            .each(totals, |it, (name, known)| {
                it.time(name, |share| known[*share])
            })
    });
    table.noted(UNKNOWN)
}

/// Returns a row for each CPU, and a column for each share that took time.
fn cpu_by_cpu(totals: &[(String, ShareMap<Option<u64>>)]) -> Table {
    let took = |share: &Share| totals.iter().any(|(_, known)| known[*share] > Some(0));
    let shown = Share::ALL.into_iter().filter(took);
    let table = Table::of("Every share", totals, |it| {
        it.name("CPU", |(name, _)| Some(name))
            .each(shown, |it, share| {
                it.time(label(share), move |(_, known)| known[share])
            })
    });
    table.noted(format!(
        "{UNKNOWN} Shares that are 0 or unknown on all CPUs are left out."
    ))
}
