//! What a paper concludes of its cells, as a check of two of them, or of a part in one.

use schemars::JsonSchema;
use serde::Deserialize;

use super::published::Statistic;

/// A conclusion: the figure of one cell, divided by that of another, stays within a bound. A figure that is
/// a part of a whole may stand for itself.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Conclusion {
    /// In a sentence.
    pub text: String,
    /// Where the paper says so.
    pub source: String,
    /// Which figure.
    pub statistic: Statistic,
    /// The cell whose figure it is.
    pub of: String,
    /// The cell by whose figure it is divided, if it is.
    pub by: Option<String>,
    /// It holds if the quotient, or the part, is at most this.
    pub at_most: Option<f64>,
    /// It holds if the quotient, or the part, is at least this.
    pub at_least: Option<f64>,
    /// Why an emulated machine cannot decide it, if that is so.
    pub not_in_emulation: Option<String>,
}

impl Conclusion {
    /// Whether this quotient, or part, agrees with it.
    pub fn agrees(&self, quotient: f64) -> bool {
        self.at_most.is_none_or(|most| quotient <= most)
            && self.at_least.is_none_or(|least| quotient >= least)
    }
}
