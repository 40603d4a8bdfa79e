//! Tables of further results: the vCPU that runs each CPU of a guest, and periods of gaps.

use super::Table;
use crate::run::{ReportedRun, RunOutcome};

/// Returns a row for each pair of a guest's CPU and its vCPU on the host.
pub(super) fn pairs(run: &ReportedRun) -> Table {
    let inside = match run.is_of_tasks() {
        true => "of them between instants",
        false => "of them in a gap",
    };
    let pairs = match &run.outcome {
        RunOutcome::Joined(joined) => &joined.pairs[..],
        _ => &[],
    };
    Table::of("Which vCPU each CPU is, and the evidence", pairs, |it| {
        it.words("CPU", |pair| format!("CPU {}", pair.cpu).into())
            .name("VM", |pair| Some(&pair.vm))
            .count("vCPU", |pair| pair.vcpu.map(u64::from))
            .count("exits tested", |pair| pair.exits_tested)
            .count(inside, |pair| pair.exits_inside)
            .percent("by chance", |pair| pair.by_chance_percent)
            .ranked("odds", |pair| {
                let odds = format!("10^{:.0}", pair.log10_odds.floor());
                (odds, Some(pair.log10_odds))
            })
            .time("clock bound", |pair| pair.bound_ns)
            .time("recorded by both", |pair| pair.overlap_ns)
    })
}

/// Returns a row for each period that was found among gaps without a known cause.
pub(super) fn periodic(run: &ReportedRun) -> Table {
    let found = run.summary().map_or(&[][..], |summary| &summary.periodic);
    Table::of("Periods in the residual", found, |it| {
        it.words("CPU", |found| format!("CPU {}", found.cpu).into())
            .ranked("every", |found| {
                let period_ns = found.period_ns as f64;
                (format!("{:.6} ms", period_ns / 1e6), Some(period_ns))
            })
            .time("for", |found| found.mean_gap_ns)
            .time("jitter", |found| found.jitter_ns)
            .count("times", |found| found.gaps)
            .percent("of the residual", |found| found.share_of_residual * 100.0)
    })
}
