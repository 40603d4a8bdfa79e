//! What a paper measured of the cells of a scenario.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::length::Length;

/// Which figure of a cell's distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The largest.
    Worst,
}

/// A table of a paper.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Published {
    /// Where it stands in the paper.
    pub source: String,
    /// What it was measured on.
    pub machine: String,
    /// What its figures are.
    pub statistic: Statistic,
    /// By the names of cells; a paper may have left some out.
    pub cells: BTreeMap<String, Length>,
}
