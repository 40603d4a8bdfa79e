//! Part of the exits that the thesis explains, compared with the part that vmnoise explains.

use vmnoise_events::human;
use vmnoise_explain::ThesisSum;

use super::percent_of;
use crate::table;

/// Renders both parts for the same exits.
pub fn render(sum: &ThesisSum) -> String {
    let rows = [
        ("interrupts + threads + overhead", sum.thesis_ns),
        ("all that vmnoise explains", sum.ours_ns),
    ];
    let table = table::of(&rows, |it| {
        it.name("sum", |(what, _)| Some(what))
            .time("time", |(_, ns)| *ns)
            .percent("% of it", |(_, ns)| percent_of(*ns, sum.length_ns))
    });
    format!(
        "\nExplained part of {} joined exits that contain work of the host, {} in all\n{table}",
        sum.exits,
        human(sum.length_ns),
    )
}
