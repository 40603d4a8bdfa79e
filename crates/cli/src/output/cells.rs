//! Formats for the cells of tables; an unknown value is `-`.

use vmnoise_events::column::Cell;

use crate::units::human;

/// Returns the text of a cell in this row.
pub fn of<R>(cell: &Cell<'_, R>, row: &R) -> String {
    match cell {
        Cell::Words(of) => of(row).into_owned(),
        Cell::Name(of) => of(row).unwrap_or("-").to_owned(),
        Cell::Count(of) => number(of(row)),
        Cell::Time(of) => time(of(row)),
        Cell::Percent(of) => percent(of(row)),
        Cell::Figure(of) => of(row),
        Cell::Ranked(of) => of(row).0,
        Cell::Truth(of) => if of(row) { "yes" } else { "no" }.to_owned(),
    }
}

/// Formats a length of time.
pub fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), human)
}

/// Formats a count.
pub fn number(count: Option<u64>) -> String {
    count.map_or_else(|| "-".into(), |count| count.to_string())
}

/// Formats a percentage with three decimals.
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.3}"))
}
