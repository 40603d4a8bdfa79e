//! What a paper measured of the cells of a scenario.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::length::Length;

/// Which figure of a cell's distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The largest.
    Worst,
    /// What half of all samples does not exceed.
    Median,
    /// The part of all samples of at most 50 us.
    #[serde(rename = "under-50us")]
    Under50us,
    /// The part of all time that others of the host had.
    Steal,
}

/// A table of a paper.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Published {
    /// Where it stands in the paper.
    pub source: String,
    /// What it was measured on.
    pub machine: String,
    /// The largest, by the names of cells; a paper may have left some out.
    pub cells: BTreeMap<String, Length>,
}
