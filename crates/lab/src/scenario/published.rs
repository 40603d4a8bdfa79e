//! Figures that papers published for the cells of a scenario.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use super::length::Length;

/// Kind of figure that describes a cell's samples: gaps, wake-ups or exits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Length of the longest sample.
    #[default]
    Worst,
    /// Length of the shortest sample.
    Least,
    /// Median length of the samples.
    Median,
    /// Part of all samples that are no longer than 50 us.
    #[serde(rename = "under-50us")]
    Under50us,
    /// Part of all samples that are no longer than 5 us; 1 for a polling task without gaps.
    #[serde(rename = "under-5us")]
    Under5us,
    /// Part of the time that was taken from a polling task.
    Noise,
    /// Part of the time that other tasks of the host took.
    Steal,
    /// Part of the time that no probe explains. The hardware took it, or the hypervisor below was
    /// not watched.
    Hardware,
    /// Part of all exits that the VMM handled.
    HeavyExits,
    /// Mean time that KVM and the VMM took for an exit. The thesis calls this overhead.
    Overhead,
    /// Median length of the exits by the guest's clock.
    InGuest,
    /// Part of the longest sample for which a culprit is known.
    Explained,
    /// Part of the longest sample that the load took.
    Load,
    /// Part of the longest sample that the softirq for received packets took.
    NetRx,
}

impl Statistic {
    /// Returns whether the figure is a part of a whole. Such a figure has a meaning without a
    /// second cell.
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

/// Table of figures in a paper.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "Published")]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PublishedTable {
    /// Section, table or figure of the paper.
    pub source: String,
    /// Machine on which the paper's authors measured.
    pub machine: String,
    /// Kind of the figures.
    #[serde(default)]
    pub statistic: Statistic,
    /// Figures by the names of cells. Cells may be missing, because a paper may have left some out.
    pub cells: BTreeMap<String, PaperFigure>,
}

/// Figure in a paper: a length of time, such as `28us`, or a part of a whole, such as `0.5%`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "Figure")]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum PaperFigure {
    /// Length of time.
    Length(Length),
    /// Part of a whole, in percent.
    Percent(f64),
}

impl PaperFigure {
    /// Returns whether the figure is a part of a whole.
    pub fn is_part(self) -> bool {
        matches!(self, PaperFigure::Percent(_))
    }
}

impl TryFrom<String> for PaperFigure {
    type Error = String;

    fn try_from(text: String) -> Result<PaperFigure, String> {
        let Some(number) = text.strip_suffix('%') else {
            return Length::try_from(text).map(PaperFigure::Length);
        };
        let percent = number.trim_end().parse().ok();
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        percent.map(PaperFigure::Percent).ok_or_else(|| {
            format!("{text:?} is no part of a whole: write a number from 0 to 100 and %, as 0.5%")
        })
    }
}

impl fmt::Display for PaperFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaperFigure::Length(length) => length.fmt(f),
            PaperFigure::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    #[test]
    fn a_figure_is_shown_as_it_is_written() {
        for text in ["28us", "0.5484%", "0.00001%", "100%"] {
            let figure = PaperFigure::try_from(text.to_owned()).unwrap();
            assert_eq!(figure.to_string(), text);
        }
    }

    #[test]
    fn what_is_neither_a_length_nor_a_part_is_refused() {
        for text in ["28", "%", "-1%", "101%", "NaN%", "half"] {
            assert!(PaperFigure::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
