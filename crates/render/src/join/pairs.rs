//! Pairs of a guest's CPU and a vCPU, and the part of the guest's gaps that the host's recording
//! covers.

use vmnoise_events::human;
use vmnoise_explain::{JoinedTotals, Pairing, Unsure};

use super::{part_of, percent_of};
use crate::{cells, table};

/// Title of the column for a workload that polls: percentage of the tests whose exits lie in the
/// guest's gaps.
pub const OF_GAPS: &str = "in gaps %";
/// Title of the column for periodic tasks: percentage of the tests whose exits lie between two
/// instants at which a task ran.
pub const OF_TASKS: &str = "between %";

/// Renders the pairs of the best candidate VM with their evidence, including pairs that are not
/// proven.
pub fn render(pairing: &Pairing, agrees: &str) -> String {
    let found = pairing.candidates.first();
    let pairs = found.map_or(&[][..], |vm| &vm.pairs);
    let table = table::of(pairs, |it| {
        it.count("CPU", |pair| u64::from(pair.cpu))
            .count("vCPU", |pair| pair.vcpu.map(u64::from))
            .name("VM", |pair| Some(&pair.vm))
            .count("thread", |pair| u64::from(pair.tid))
            .time("overlap", |pair| pair.overlap_ns)
            .count("clocks", |pair| u64::from(pair.clocks))
            .count("tested", |pair| pair.exits_tested)
            .figure(agrees, |pair| {
                percent(percent_of(pair.exits_inside, pair.exits_tested))
            })
            .figure("by chance %", |pair| percent(Some(pair.by_chance_percent)))
            .figure("odds", |pair| odds(pair.log10_odds))
            .figure("slack", |pair| slack(pair.slack_ns))
            .time("bound", |pair| pair.bound_ns)
    });
    format!("\nWhich CPU of the guest is which vCPU, and what proves it\n{table}")
}

/// Formats odds as a power of ten, rounded down.
pub fn odds(log10_odds: f64) -> String {
    format!("10^{:.0}", log10_odds.floor())
}

/// Renders how many gaps the host's recording covers.
pub fn coverage(joined: &JoinedTotals, above_ns: u64) -> String {
    let JoinedTotals {
        gaps,
        witnessed,
        joined,
        witnessed_above,
        joined_above,
        witnessed_ns,
        witnessed_unexplained_ns,
        joined_ns,
        unexplained_ns,
        exits,
        unsure,
        ..
    } = *joined;
    let of_it = |part_ns, whole_ns| {
        let percent = cells::percent(percent_of(part_ns, whole_ns));
        format!("{} ({percent} %)", human(part_ns))
    };
    let coverage = format!(
        " gaps that the host recorded: {}\n of these with an exit in them: {}; of {} and more: {}\n \
         exits in gaps: {exits}; unexplained in the recorded gaps ({}): {}; in those with an exit ({}): {}\n",
        part_of(witnessed, gaps),
        part_of(joined, witnessed),
        human(above_ns),
        part_of(joined_above, witnessed_above),
        human(witnessed_ns),
        of_it(witnessed_unexplained_ns, witnessed_ns),
        human(joined_ns),
        of_it(unexplained_ns, joined_ns),
    );
    coverage + &unsure_of(&unsure, ("gap", "gaps"))
}

/// Returns a line about intervals for which the clocks are not exact enough to name a culprit on
/// the host. Either the interval is too short, or an exit overlaps the interval by too little.
/// Empty if there are none.
pub fn unsure_of(unsure: &Unsure, (one, many): (&str, &str)) -> String {
    let Unsure { count, exits, ns } = *unsure;
    let short = match count {
        0 => None,
        1 => Some(format!("1 {one} is too short for the two clocks")),
        _ => Some(format!("{count} {many} are too short for the two clocks")),
    };
    let of_longer = match exits {
        0 => None,
        1 => Some(format!("1 exit overlaps its {one} by too little")),
        _ => Some(format!("{exits} exits overlap their {one} by too little")),
    };
    let reported: Vec<String> = short.into_iter().chain(of_longer).collect();
    match reported.is_empty() {
        true => String::new(),
        false => format!(
            " {}: no culprit on the host is named for their {}\n",
            reported.join(", "),
            human(ns)
        ),
    }
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}

/// Formats by how much the exits could lie earlier and later without more contradictions to the
/// clock.
fn slack(slack_ns: Option<(i64, i64)>) -> String {
    let Some((earlier_ns, later_ns)) = slack_ns else {
        return "-".into();
    };
    let signed = |ns: i64| {
        let sign = if ns < 0 { '-' } else { '+' };
        format!("{sign}{}", human(ns.unsigned_abs()))
    };
    format!("{} .. {}", signed(earlier_ns), signed(later_ns))
}
