//! Percentages as results print them.

/// Returns `part` of `whole` in percent, rounded to six decimals, so that the text of a result does
/// not depend on how a float prints. Returns `None` if `whole` is 0, or if `part` is larger than
/// `whole`: a stream with more noise than runtime is damaged.
pub(crate) fn percent(part: u128, whole: u128) -> Option<f64> {
    (whole > 0 && part <= whole).then(|| ratio(part, whole))
}

/// Returns `many` in percent of `whole`. `many` may be larger than `whole`. Returns `None` if
/// `whole` is 0.
pub(crate) fn percent_of_one(many: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| ratio(many, whole))
}

fn ratio(part: u128, whole: u128) -> f64 {
    round_6(part as f64 * 100.0 / whole as f64)
}

/// Returns `value` rounded to six decimals.
pub(crate) fn round_6(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
