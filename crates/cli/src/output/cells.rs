//! One figure in a cell of a table; what is unknown is `-`.

use crate::units::human;

/// A length of time.
pub fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), human)
}

/// A count.
pub fn number(count: Option<u64>) -> String {
    count.map_or_else(|| "-".into(), |count| count.to_string())
}

/// A percentage, to a thousandth.
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.3}"))
}
