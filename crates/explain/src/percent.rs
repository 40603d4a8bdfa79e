//! Percentages as results print them.

/// `part` of `whole` in percent, rounded to six decimals so that the text of a
/// result does not depend on how a float prints; `None` where there is no whole, or what is called its
/// part is larger: a stream that reports more noise than runtime is damaged, and says nothing of either.
pub(crate) fn percent(part: u128, whole: u128) -> Option<f64> {
    (whole > 0 && part <= whole).then(|| ratio(part, whole))
}

/// As `percent`, of what may be many times `whole`.
pub(crate) fn percent_of_one(many: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| ratio(many, whole))
}

fn ratio(part: u128, whole: u128) -> f64 {
    round_6(part as f64 * 100.0 / whole as f64)
}

/// `value` rounded to six decimals.
pub(crate) fn round_6(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
