//! Formats figures for tables. Each result is a text, and the number by which the column is sorted.

use vmnoise_judge::compare::Unit;

use crate::beside::value;

/// Formats a figure in its unit; `-` if unknown.
pub(super) fn figure(found: Option<f64>, unit: Unit) -> (String, Option<f64>) {
    (value(found, unit), found)
}

/// Formats a figure with `how`; `-` if unknown.
pub(super) fn written(found: Option<f64>, how: impl Fn(f64) -> String) -> (String, Option<f64>) {
    (found.map_or_else(|| "-".into(), how), found)
}

/// Formats a p-value.
pub(super) fn chance(p: f64) -> String {
    match p {
        0.000_1.. => format!("{p:.4}"),
        _ => "<0.0001".into(),
    }
}
