//! Table of the causes of lost time; for joined recordings, with the machine that recorded each
//! cause.

use vmnoise_explain::{JoinedRun, VmSide};

use super::Table;
use crate::figures::{part_of, sum};
use crate::run::{ReportedRun, RunOutcome};
use crate::shares::label;

/// Largest number of rows. Other outputs of the program list all causes.
const TAKERS: usize = 200;

/// Returns a row for each cause, the largest first.
pub(super) fn takers(run: &ReportedRun) -> Table {
    if let RunOutcome::Joined(joined) = &run.outcome {
        return of_both_sides(run, joined);
    }
    let takers = run.takers();
    let total_ns = sum(takers.iter().map(|taker| taker.total_ns));
    let shown = &takers[..takers.len().min(TAKERS)];
    let table = Table::of("Who took it", shown, |it| {
        it.words(run.words().lane, |it| {
            run.lane_name(it.lane).to_owned().into()
        })
        .name("who", |taker| taker.name.as_deref())
        .name("as", |taker| Some(label(taker.share)))
        .count(run.words().many, |taker| taker.moments)
        .time("total", |taker| taker.total_ns)
        .time("largest part", |taker| taker.max_ns)
        .percent("of all", |taker| part_of(taker.total_ns, total_ns))
    });
    table.noted(left_out(takers.len()))
}

fn left_out(all: usize) -> String {
    match all.checked_sub(TAKERS) {
        None | Some(0) => String::new(),
        Some(more) => {
            format!("{more} smaller ones are left out; vmnoise explain --format json has them.")
        }
    }
}

fn of_both_sides(run: &ReportedRun, joined: &JoinedRun) -> Table {
    let culprits = match &joined.latencies {
        Some(latencies) => &latencies.culprits,
        None => &joined.culprits,
    };
    let of_all = format!("of the {}", run.words().noise);
    let shown = &culprits[..culprits.len().min(TAKERS)];
    let table = Table::of("Who took it", shown, |it| {
        it.name("side", |culprit| match culprit.side {
            VmSide::Guest => Some("guest"),
            VmSide::Host => Some("host"),
            VmSide::Unknown => None,
        })
        .name("who", |culprit| culprit.name.as_deref())
        .name("as", |culprit| Some(label(culprit.share)))
        .count("its CPU", |culprit| culprit.cpu.map(u64::from))
        .count(run.words().many, |culprit| culprit.gaps)
        .time("total", |culprit| culprit.total_ns)
        .time("largest part", |culprit| culprit.max_ns)
        .percent(&of_all, |culprit| culprit.percent)
    });
    table.noted(left_out(culprits.len()))
}
