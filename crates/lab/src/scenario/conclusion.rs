//! Conclusions of a paper as checks: of two cells, or of a part in one cell.

use schemars::JsonSchema;
use serde::Deserialize;

use super::published::Statistic;

/// Conclusion: the figure of one cell, divided by that of another, stays within a bound. A figure
/// that is a part of a whole may be checked without another cell.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Conclusion {
    /// Conclusion in one sentence.
    pub text: String,
    /// Place in the paper.
    pub source: String,
    /// Figure that is checked.
    pub statistic: Statistic,
    /// Cell with this figure.
    pub of: String,
    /// Cell by whose figure it is divided, if any.
    pub by: Option<String>,
    /// Largest quotient, or part, with which the conclusion holds.
    pub at_most: Option<f64>,
    /// Smallest quotient, or part, with which the conclusion holds.
    pub at_least: Option<f64>,
    /// Reason why an emulated machine cannot decide the conclusion, if so.
    pub not_in_emulation: Option<String>,
}

impl Conclusion {
    /// Returns whether this quotient, or part, agrees with the conclusion.
    pub fn agrees(&self, quotient: f64) -> bool {
        self.at_most.is_none_or(|most| quotient <= most)
            && self.at_least.is_none_or(|least| quotient >= least)
    }
}
