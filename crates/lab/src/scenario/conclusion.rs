//! Conclusions of a paper, which are checked with the figures of one or two cells.

use schemars::JsonSchema;
use serde::Deserialize;

use super::published::Statistic;

/// A conclusion of a paper. The figure of one cell, divided by that of another cell, must be within
/// limits. A figure that is a part of a whole may be checked without a second cell.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Conclusion {
    /// The conclusion in one sentence.
    pub text: String,
    /// Section, table or figure of the paper.
    pub source: String,
    /// Figure that is compared.
    pub statistic: Statistic,
    /// Name of the cell whose figure is compared.
    pub of: String,
    /// Name of the cell that gives the divisor. Missing if the figure of `of` is a part of a whole.
    pub by: Option<String>,
    /// Largest quotient, or part of a whole, for which the conclusion holds.
    pub at_most: Option<f64>,
    /// Smallest quotient, or part of a whole, for which the conclusion holds.
    pub at_least: Option<f64>,
    /// Reason why emulation cannot decide the conclusion; missing if it can.
    pub not_in_emulation: Option<String>,
}

impl Conclusion {
    /// Returns whether this quotient, or this part of a whole, agrees with the conclusion.
    pub fn agrees(&self, quotient: f64) -> bool {
        self.at_most.is_none_or(|most| quotient <= most)
            && self.at_least.is_none_or(|least| quotient >= least)
    }
}
