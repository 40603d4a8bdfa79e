//! What a paper measured of the cells of a scenario.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use super::length::Length;

/// Which figure of a cell's distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The largest.
    #[default]
    Worst,
    /// The smallest.
    Least,
    /// What half of all samples does not exceed.
    Median,
    /// The part of all samples of at most 50 us.
    #[serde(rename = "under-50us")]
    Under50us,
    /// The part of all time that others of the host had.
    Steal,
    /// The part of all time that no witness explains where every layer was watched, or the layer below was not.
    Hardware,
    /// Of all exits, the part that went to the VMM.
    HeavyExits,
    /// What KVM and the VMM had of an exit on average: what the thesis calls overhead.
    Overhead,
    /// What half of all exits do not exceed, as their guest has it.
    InGuest,
    /// Of the largest, the part for which somebody is named.
    Explained,
    /// Of the largest, the part that the load had.
    Load,
}

impl Statistic {
    /// Whether it is a part of a whole, which says something by itself.
    pub fn is_part(self) -> bool {
        match self {
            Statistic::Worst
            | Statistic::Least
            | Statistic::Median
            | Statistic::Overhead
            | Statistic::InGuest => false,
            Statistic::Under50us
            | Statistic::Steal
            | Statistic::Hardware
            | Statistic::HeavyExits
            | Statistic::Explained
            | Statistic::Load => true,
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Statistic::Worst => "worst",
            Statistic::Least => "least",
            Statistic::Median => "median",
            Statistic::Under50us => "part under 50 us",
            Statistic::Steal => "part stolen",
            Statistic::Hardware => "part of hardware",
            Statistic::HeavyExits => "part of heavy exits",
            Statistic::Overhead => "mean overhead",
            Statistic::InGuest => "median in the guest",
            Statistic::Explained => "part of the worst that is explained",
            Statistic::Load => "part of the worst that the load had",
        })
    }
}

/// A table of a paper.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Published {
    /// Where it stands in the paper.
    pub source: String,
    /// What it was measured on.
    pub machine: String,
    /// Which figure it is.
    #[serde(default)]
    pub statistic: Statistic,
    /// By the names of cells; a paper may have left some out.
    pub cells: BTreeMap<String, Length>,
}
