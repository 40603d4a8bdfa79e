//! Tables of hosts, culprits and ranks of a fleet.

use super::Table;
use crate::figures::{duration, part_of, percent, sum};
use crate::fleet::{Fleet, Judged, Lot, Taken, Taker};
use crate::shares::label;

/// Largest number of hosts or ranks in a table.
const LOTS: usize = 2_000;
/// Largest number of culprits in a table.
const TAKERS: usize = 200;

/// Returns the tables that follow the charts.
pub(crate) fn fleet(fleet: &Fleet) -> Vec<Table> {
    let mut tables = vec![
        lots("Hosts", "host", &fleet.hosts, &fleet.judged_hosts),
        takers(fleet),
        lots("Ranks", "rank", &fleet.ranks, &fleet.judged_ranks),
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Returns a row for each host or rank: the largest loss first, and those that cannot be compared
/// last.
fn lots(title: &str, what: &str, lots: &[Lot], judged: &Judged) -> Table {
    let others = (0..lots.len()).filter(|place| !judged.places.contains(place));
    let places: Vec<usize> = judged.places.iter().copied().chain(others).collect();
    let shown = &places[..places.len().min(LOTS)];
    let rows: Vec<(usize, &Lot)> = shown.iter().map(|place| (*place, &lots[*place])).collect();
    let table = Table::of(title, &rows, |it| {
        it.words(what, |(_, lot)| lot.name.clone().into())
            .percent("lost", |(_, lot)| lot.noise_percent())
            .words("stands out", |(place, _)| {
                let is = match judged.group_of(*place) {
                    _ if judged.out.contains(place) => "yes",
                    Some(group) if group.is_large() => "no",
                    _ => "not judged",
                };
                is.into()
            })
            .words("mostly to", |(_, lot)| {
                let most = lot.most();
                most.map_or_else(|| "-".into(), |(taker, _)| called(taker).into())
            })
            .percent("of its time", |(_, lot)| {
                let (taker, _) = lot.most()?;
                Some(lot.taken_percent(taker))
            })
            .time("longest gap", |(_, lot)| lot.all.max_gap_ns)
            .count("gaps", |(_, lot)| lot.all.gaps)
            .ranked("worst CPU", |(_, lot)| match lot.worst_cpu() {
                Some((cpu, lost)) => (format!("CPU {cpu}: {}", percent(lost)), Some(lost)),
                None => ("-".into(), None),
            })
            .count("CPUs", |(_, lot)| lot.cpus.len() as u64)
            .count("runs", |(_, lot)| lot.runs)
            .time("runtime", |(_, lot)| lot.all.runtime_ns)
            .percent("unseen", |(_, lot)| lot.unseen_percent())
            .count("lost gaps", |(_, lot)| lot.lost_gaps)
            .words("measured by", |(_, lot)| looked(lot).into())
    });
    let left_out = places.len() - shown.len();
    let left_out = match left_out {
        0 => String::new(),
        more => format!(" {more} more are left out."),
    };
    table.noted(format!(
        "Lost time is in percent of the runtime. A {what} is not judged if fewer than seven others were \
         measured in the same way. Lost gaps are lost records that may have been gaps. Unseen time was \
         not observed.{left_out}"
    ))
}

fn takers(fleet: &Fleet) -> Table {
    let total_ns = sum(fleet.takers.iter().map(|(_, taken)| taken.total_ns));
    let shown = &fleet.takers[..fleet.takers.len().min(TAKERS)];
    let most_of = |taken: &Taken| &fleet.hosts[taken.most_of.0];
    let table = Table::of("Who took it", shown, |it| {
        it.name("who", |((_, who), _)| who.as_deref())
            .name("as", |((share, _), _)| Some(label(*share)))
            .percent("of all", |(_, taken)| part_of(taken.total_ns, total_ns))
            .time("total", |(_, taken)| taken.total_ns)
            .count("gaps", |(_, taken)| taken.gaps)
            .time("largest part", |(_, taken)| taken.most_ns)
            .count("hosts", |(_, taken)| taken.lots)
            .words("most of it on", |(_, taken)| {
                most_of(taken).name.clone().into()
            })
            .percent("part there", |(_, taken)| {
                part_of(taken.most_of.1, taken.total_ns)
            })
    });
    let note = match fleet.takers.len().checked_sub(TAKERS) {
        None | Some(0) => String::new(),
        Some(more) => format!(
            "{more} smaller ones are left out: the table gap_parts of the data set has them."
        ),
    };
    table.noted(note)
}

fn called((share, who): &Taker) -> String {
    match who {
        Some(who) => format!("{who} ({})", label(*share)),
        None => label(*share).to_owned(),
    }
}

fn looked(lot: &Lot) -> String {
    let looked = lot.looked.iter();
    let looked = looked
        .map(|(workload, threshold_ns)| format!("{workload} from {}", duration(*threshold_ns)));
    looked.collect::<Vec<String>>().join(", ")
}
