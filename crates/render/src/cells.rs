//! Formats of table cells; an unknown value is `-`.

use vmnoise_events::column::ColumnValue;
use vmnoise_events::human;

/// Returns the text of the cell in this row.
pub fn of<R>(cell: &ColumnValue<'_, R>, row: &R) -> String {
    match cell {
        ColumnValue::Words(of) => of(row).into_owned(),
        ColumnValue::Name(of) => of(row).unwrap_or("-").to_owned(),
        ColumnValue::Count(of) => number(of(row)),
        ColumnValue::Time(of) => time(of(row)),
        ColumnValue::Percent(of) => percent(of(row)),
        ColumnValue::Figure(of) => of(row),
        ColumnValue::Ranked(of) => of(row).0,
        ColumnValue::Truth(of) => if of(row) { "yes" } else { "no" }.to_owned(),
    }
}

/// Formats a duration.
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
