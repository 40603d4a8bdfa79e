//! Formats of figures for people.

use vmnoise_events::human;
use vmnoise_judge::compare::{ComparedFigure, Unit};

/// Returns the name of a figure with its unit.
pub(super) fn titled(figure: &ComparedFigure) -> String {
    format!("{}{}", figure.name(), sign(figure.unit()))
}

/// Formats a p value.
pub(super) fn chance(p: f64) -> String {
    match p {
        0.000_1.. => format!("{p:.4}"),
        _ => "<0.0001".into(),
    }
}

/// Returns the sign of a unit, which follows the name or the number of a figure. Nanoseconds have
/// no sign, because [`value`] formats them with a unit.
pub(super) const fn sign(unit: Unit) -> &'static str {
    match unit {
        Unit::Percent => " %",
        Unit::PerSecond => " /s",
        Unit::Nanoseconds => "",
    }
}

/// Formats a number without the sign of its unit; `-` if unknown.
pub(super) fn value(value: Option<f64>, unit: Unit) -> String {
    match (value, unit) {
        (None, _) => "-".into(),
        (Some(value), Unit::Percent) => format!("{value:.4}"),
        (Some(value), Unit::PerSecond) => format!("{value:.1}"),
        (Some(value), Unit::Nanoseconds) => human(value.round() as u64),
    }
}

/// Formats a difference, with its sign `+` or `-`.
pub(super) fn signed(shift: f64, unit: Unit) -> String {
    let sign = if shift < 0.0 { '-' } else { '+' };
    format!("{sign}{}", value(Some(shift.abs()), unit))
}
