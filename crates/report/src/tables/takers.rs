//! Who took the time; of a join, on which side.

use vmnoise_explain::{JoinedRun, Side};

use super::{NUMBER, Table, WORD, number, share_of, time, words};
use crate::figures::{part_of, sum};
use crate::run::{Outcome, Run};
use crate::shares::label;

/// Rows that are shown; the program's other outputs have all.
const TAKERS: usize = 200;

/// The one that took most first.
pub(super) fn takers(run: &Run) -> Table {
    if let Outcome::Joined(joined) = &run.outcome {
        return of_both_sides(run, joined);
    }
    let many = run.words().many;
    let mut table = Table::new(
        "Who took it",
        &[
            (run.words().lane, WORD),
            ("who", WORD),
            ("as", WORD),
            (many, NUMBER),
            ("total", NUMBER),
            ("most at once", NUMBER),
            ("of all", NUMBER),
        ],
    );
    let takers = run.takers();
    let total_ns = sum(takers.iter().map(|taker| taker.total_ns));
    for taker in takers.iter().take(TAKERS) {
        table.rows.push(vec![
            words(run.lane_name(taker.lane)),
            words(taker.name.as_deref().unwrap_or("-")),
            words(label(taker.share)),
            number(taker.moments),
            time(taker.total_ns),
            time(taker.max_ns),
            share_of(Some(part_of(taker.total_ns, total_ns))),
        ]);
    }
    table.note = left_out(takers.len());
    table
}

fn left_out(all: usize) -> String {
    match all.checked_sub(TAKERS) {
        None | Some(0) => String::new(),
        Some(more) => {
            format!("{more} smaller ones are left out; vmnoise explain --format json has them.")
        }
    }
}

fn of_both_sides(run: &Run, joined: &JoinedRun) -> Table {
    let culprits = match &joined.latencies {
        Some(latencies) => &latencies.culprits,
        None => &joined.culprits,
    };
    let of_all = format!("of the {}", run.words().noise);
    let mut table = Table::new(
        "Who took it",
        &[
            ("side", WORD),
            ("who", WORD),
            ("as", WORD),
            ("its CPU", NUMBER),
            (run.words().many, NUMBER),
            ("total", NUMBER),
            ("most at once", NUMBER),
            (&of_all, NUMBER),
        ],
    );
    for it in culprits.iter().take(TAKERS) {
        let side = match it.side {
            Side::Guest => "guest",
            Side::Host => "host",
            Side::Unknown => "-",
        };
        table.rows.push(vec![
            words(side),
            words(it.name.as_deref().unwrap_or("-")),
            words(label(it.share)),
            number(it.cpu.map(u64::from)),
            number(it.gaps),
            time(it.total_ns),
            time(it.max_ns),
            share_of(Some(it.percent)),
        ]);
    }
    table.note = left_out(culprits.len());
    table
}
