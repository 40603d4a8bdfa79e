//! Percentages as results print them.

/// `part` of `whole` in percent, rounded to six decimals so that the text of a
/// result does not depend on how a float prints; `None` where there is no whole.
pub(crate) fn percent(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| round_6(part as f64 * 100.0 / whole as f64))
}

/// `value` rounded to six decimals.
pub(crate) fn round_6(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
