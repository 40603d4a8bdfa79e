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
    /// The part of all samples of at most 5 us. Where a task that polls lost nothing, that is all of them.
    #[serde(rename = "under-5us")]
    Under5us,
    /// Of a task that polls: the part of all time that it did not have.
    Noise,
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
    /// Of the largest, the part that the soft interrupt had by which packets are received.
    NetRx,
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
            | Statistic::Under5us
            | Statistic::Noise
            | Statistic::Steal
            | Statistic::Hardware
            | Statistic::HeavyExits
            | Statistic::Explained
            | Statistic::Load
            | Statistic::NetRx => true,
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
            Statistic::Under5us => "part under 5 us",
            Statistic::Noise => "part of noise",
            Statistic::Steal => "part stolen",
            Statistic::Hardware => "part of hardware",
            Statistic::HeavyExits => "part of heavy exits",
            Statistic::Overhead => "mean overhead",
            Statistic::InGuest => "median in the guest",
            Statistic::Explained => "part of the worst that is explained",
            Statistic::Load => "part of the worst that the load had",
            Statistic::NetRx => "part of the worst that NET_RX had",
        })
    }
}

/// A table of a paper.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
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
    pub cells: BTreeMap<String, Figure>,
}

/// A figure of a paper. In a file it is a length of time, as `28us`, or a part of a whole, as `0.5%`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum Figure {
    /// A length of time.
    Length(Length),
    /// A part of a whole, in per cent.
    Percent(f64),
}

impl Figure {
    /// Whether it is a part of a whole.
    pub fn is_part(self) -> bool {
        matches!(self, Figure::Percent(_))
    }
}

impl TryFrom<String> for Figure {
    type Error = String;

    fn try_from(text: String) -> Result<Figure, String> {
        let Some(number) = text.strip_suffix('%') else {
            return Length::try_from(text).map(Figure::Length);
        };
        let percent = number.trim_end().parse().ok();
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        percent.map(Figure::Percent).ok_or_else(|| {
            format!("{text:?} is no part of a whole: write a number from 0 to 100 and %, as 0.5%")
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Length(length) => length.fmt(f),
            Figure::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use super::*;

    #[test]
    fn a_figure_is_shown_as_it_is_written() {
        for text in ["28us", "0.5484%", "0.00001%", "100%"] {
            let figure = Figure::try_from(text.to_owned()).unwrap();
            assert_eq!(figure.to_string(), text);
        }
    }

    #[test]
    fn what_is_neither_a_length_nor_a_part_is_refused() {
        for text in ["28", "%", "-1%", "101%", "NaN%", "half"] {
            assert!(Figure::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
