//! What was found out on the way: which vCPU each CPU is, and periods.

use super::{Field, NUMBER, Table, WORD, number, share_of, time, words};
use crate::run::{Outcome, Run};

/// The pairs of a join.
pub(super) fn pairs(run: &Run) -> Table {
    let [tested, inside] = match run.is_of_tasks() {
        true => ["exits tested", "of them between instants"],
        false => ["exits tested", "of them in a gap"],
    };
    let mut table = Table::new(
        "Which vCPU each CPU is, and what says so",
        &[
            ("CPU", WORD),
            ("VM", WORD),
            ("vCPU", NUMBER),
            (tested, NUMBER),
            (inside, NUMBER),
            ("by chance", NUMBER),
            ("odds", NUMBER),
            ("clock bound", NUMBER),
            ("recorded by both", NUMBER),
        ],
    );
    let Outcome::Joined(joined) = &run.outcome else {
        return table;
    };
    for pair in &joined.pairs {
        table.rows.push(vec![
            words(format!("CPU {}", pair.cpu)),
            words(pair.vm.clone()),
            number(pair.vcpu.map(u64::from)),
            number(pair.exits_tested),
            number(pair.exits_inside),
            share_of(Some(pair.by_chance_percent)),
            Field {
                text: format!("10^{:.0}", pair.log10_odds.floor()),
                rank: Some(pair.log10_odds),
                is_number: true,
            },
            time(pair.bound_ns),
            time(pair.overlap_ns),
        ]);
    }
    table
}

/// Periods in what no witness explains.
pub(super) fn periodic(run: &Run) -> Table {
    let mut table = Table::new(
        "Periods in what no witness explains",
        &[
            ("CPU", WORD),
            ("every", NUMBER),
            ("for", NUMBER),
            ("jitter", NUMBER),
            ("times", NUMBER),
            ("of what is left over", NUMBER),
        ],
    );
    for found in run
        .summary()
        .into_iter()
        .flat_map(|summary| &summary.periodic)
    {
        table.rows.push(vec![
            words(format!("CPU {}", found.cpu)),
            Field {
                text: format!("{:.6} ms", found.period_ns as f64 / 1e6),
                rank: Some(found.period_ns as f64),
                is_number: true,
            },
            time(found.mean_gap_ns),
            time(found.jitter_ns),
            number(found.gaps),
            share_of(Some(found.share_of_residual * 100.0)),
        ]);
    }
    table
}
