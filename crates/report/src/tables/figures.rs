//! Figures in tables, each with the number that it is sorted by.

use vmnoise_judge::compare::Unit;

use crate::beside::value;

/// In its unit; `-` where unknown.
pub(super) fn figure(found: Option<f64>, unit: Unit) -> (String, Option<f64>) {
    (value(found, unit), found)
}

/// As `how` has it; `-` where unknown.
pub(super) fn written(found: Option<f64>, how: impl Fn(f64) -> String) -> (String, Option<f64>) {
    (found.map_or_else(|| "-".into(), how), found)
}

/// A p.
pub(super) fn chance(p: f64) -> String {
    match p {
        0.000_1.. => format!("{p:.4}"),
        _ => "<0.0001".into(),
    }
}
