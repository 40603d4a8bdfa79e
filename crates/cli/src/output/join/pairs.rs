//! Which CPU of the guest is which vCPU, and how far the recordings cover each other.

use vmnoise_explain::{JoinedTotals, Pair};

use super::{part_of, percent_of};
use crate::output::{table, text};
use crate::units::human;

/// What was tested of a workload that polls: exits must lie in its gaps.
pub const OF_GAPS: &str = "in gaps %";
/// And of tasks: where they ran, no exit may lie.
pub const OF_TASKS: &str = "in no exit %";

/// Each pair with its proof.
pub fn render(pairs: &[Pair], agrees: &str) -> String {
    let rows: Vec<[String; 11]> = pairs
        .iter()
        .map(|pair| {
            [
                pair.cpu.to_string(),
                text::number(pair.vcpu.map(u64::from)),
                pair.vm.clone(),
                pair.tid.to_string(),
                human(pair.overlap_ns),
                pair.clocks.to_string(),
                pair.exits_tested.to_string(),
                percent(percent_of(pair.exits_inside, pair.exits_tested)),
                percent(Some(pair.by_chance_percent)),
                slack(pair.slack_ns),
                human(pair.bound_ns),
            ]
        })
        .collect();
    let headings = [
        "CPU",
        "vCPU",
        "VM",
        "thread",
        "overlap",
        "clocks",
        "tested",
        agrees,
        "by chance %",
        "slack",
        "bound",
    ];
    format!(
        "\nWhich CPU of the guest is which vCPU, and what proves it\n{}",
        table::columns(headings, &[2], &rows)
    )
}

/// How many gaps the host tells about.
pub fn coverage(joined: &JoinedTotals, above_ns: u64) -> String {
    let JoinedTotals {
        gaps,
        witnessed,
        joined,
        witnessed_above,
        joined_above,
        joined_ns,
        unexplained_ns,
        exits,
        ..
    } = *joined;
    format!(
        " gaps that the host witnessed: {}\n of these with an exit in them: {}; of {} and more: {}\n \
         exits in gaps: {exits}; unexplained of the joined gaps' {}: {} ({} %)\n",
        part_of(witnessed, gaps),
        part_of(joined, witnessed),
        human(above_ns),
        part_of(joined_above, witnessed_above),
        human(joined_ns),
        human(unexplained_ns),
        text::percent(percent_of(unexplained_ns, joined_ns)),
    )
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}

/// How much earlier and later the exits could lie and still be in their gaps.
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
