//! The sum by which the thesis explains an exit, beside ours.

use vmnoise_explain::ThesisSum;

use super::percent_of;
use crate::output::{cells, table};
use crate::units::human;

/// Both, over the same exits.
pub fn render(sum: &ThesisSum) -> String {
    let row = |what: &str, ns| {
        let of_length = percent_of(ns, sum.length_ns);
        [what.to_owned(), human(ns), cells::percent(of_length)]
    };
    let rows = [
        row("interrupts + threads + overhead", sum.thesis_ns),
        row("all that is booked here", sum.ours_ns),
    ];
    format!(
        "\nHow much of {} joined exits with work of the host in them is explained: {} in all\n{}",
        sum.exits,
        human(sum.length_ns),
        table::columns(["sum", "time", "% of it"], &[0], &rows)
    )
}
