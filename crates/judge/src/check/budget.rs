//! Limits that a run must keep.

use std::fmt;

use vmnoise_events::{Name, Share};

use crate::compare::Unit;

/// Set of limits that a run must keep.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    /// Limits, in the order in which the user gave them.
    pub requirements: Vec<Requirement>,
    /// Least length of the run, in nanoseconds; `None` if any length is allowed.
    pub runtime_ns: Option<u64>,
}

impl Budget {
    /// Adds the limits of `other` on quantities without a limit in this budget. Takes the least
    /// length of `other` if this budget has none.
    pub fn add_what_is_not_limited(&mut self, other: Budget) {
        for requirement in other.requirements {
            let mut known = self.requirements.iter();
            if known.all(|it| it.quantity != requirement.quantity) {
                self.requirements.push(requirement);
            }
        }
        self.runtime_ns = self.runtime_ns.or(other.runtime_ns);
    }
}

/// Limit on one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// The limited quantity.
    pub quantity: Quantity,
    /// Upper limit, in the quantity's unit.
    pub at_most: f64,
    /// Value, in the quantity's unit, above which a run that keeps the limit gets a warning; `None`
    /// without a warning.
    pub warn_above: Option<f64>,
}

/// Quantity that can be limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quantity {
    /// Longest gap, or longest latency of a wake-up, in nanoseconds.
    Max,
    /// Length, in nanoseconds, that this number of every 100,000 gaps or wake-ups does not exceed:
    /// 99,900 for p99.9.
    Percentile(u32),
    /// Sum of the lengths of all gaps, in percent of the runtime.
    Noise,
    /// Number of gaps, per second of the runtime.
    Gaps,
    /// Number of gaps longer than this number of nanoseconds, per second of a CPU's runtime.
    GapsAbove(u64),
    /// Time of one share, in percent of the runtime.
    Share(Share),
    /// Time of all culprits that match the pattern, in percent of the runtime.
    Culprit(CulpritPattern),
}

/// Pattern for the names of culprits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CulpritPattern {
    /// Share in which the time of the culprits is counted; `None` for any share.
    pub share: Option<Share>,
    /// Pattern for the names: `*` stands for any characters, `?` for one character.
    pub who: Name,
}

/// Denominator of a percentile's rank.
const RANKS: u32 = 100_000;
/// Word between a share and the pattern of its culprits.
const BY: &str = "by ";
/// Sign between `gaps` and the length above which gaps are counted.
const ABOVE: char = '>';
/// Names of the units of time, and their lengths in nanoseconds.
const UNITS: [(&str, u64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Quantity {
    /// Returns the quantity with this name: `max`, `p99.9`, `noise`, `gaps`, `gaps>20us`, a share,
    /// `by WHO`, or `SHARE by WHO`. `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<Quantity> {
        let share = |name: &str| Share::ALL.into_iter().find(|it| it.name() == name);
        if let Some((before, who)) = name
            .split_once(BY)
            .filter(|(before, _)| before.is_empty() || before.ends_with(' '))
        {
            let share = match before.trim() {
                "" => None,
                before => Some(share(before)?),
            };
            let who: Name = who.trim().into();
            return (!who.is_empty()).then_some(Quantity::Culprit(CulpritPattern { share, who }));
        }
        match name {
            "max" => Some(Quantity::Max),
            "noise" => Some(Quantity::Noise),
            "gaps" => Some(Quantity::Gaps),
            _ if name.contains(ABOVE) => gaps_above(name),
            _ => percentile(name).or_else(|| share(name).map(Quantity::Share)),
        }
    }

    /// Returns the unit of the quantity.
    pub fn unit(&self) -> Unit {
        match self {
            Quantity::Max | Quantity::Percentile(_) => Unit::Nanoseconds,
            Quantity::Gaps | Quantity::GapsAbove(_) => Unit::PerSecond,
            Quantity::Noise | Quantity::Share(_) | Quantity::Culprit(_) => Unit::Percent,
        }
    }

    /// Returns whether latencies of wake-ups have this quantity, too.
    pub fn is_of_latencies(&self) -> bool {
        matches!(self, Quantity::Max | Quantity::Percentile(_))
    }

    /// Returns whether a run can only estimate this quantity.
    pub(super) fn is_estimated(&self) -> bool {
        matches!(self, Quantity::Percentile(_) | Quantity::GapsAbove(_))
    }

    /// Returns whether the longest gap or wake-up explains why the limit is broken.
    pub fn is_broken_by_the_longest(&self) -> bool {
        self.is_of_latencies() || matches!(self, Quantity::GapsAbove(_))
    }

    /// Returns the part of all values (0 to 1) that may be above the limit; `None` if the quantity
    /// is no percentile.
    pub(super) fn part_above(&self) -> Option<f64> {
        match self {
            Quantity::Percentile(rank) => Some(1.0 - f64::from(*rank) / f64::from(RANKS)),
            _ => None,
        }
    }
}

/// Parses `p50` to `p99.999`.
fn percentile(name: &str) -> Option<Quantity> {
    let number = name.strip_prefix('p')?;
    let plain = number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let percent: f64 = number.parse().ok().filter(|_| plain)?;
    let rank = percent * f64::from(RANKS) / 100.0;
    // Digits below the smallest rank are refused, because rounding would drop them silently.
    let is_rank = (rank - rank.round()).abs() < 1e-6 && rank >= 1.0 && rank < f64::from(RANKS);
    is_rank.then(|| Quantity::Percentile(rank.round() as u32))
}

/// Parses `gaps>20us`. A number without a unit is in microseconds.
fn gaps_above(name: &str) -> Option<Quantity> {
    let length = name.strip_prefix("gaps")?.trim_start();
    let length = length.strip_prefix(ABOVE)?.trim();
    let digits = length.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let (_, unit_ns) = match &length[digits.len()..] {
        "" => UNITS[2],
        unit => *UNITS.iter().find(|(name, _)| *name == unit)?,
    };
    let number: u64 = digits.parse().ok()?;
    Some(Quantity::GapsAbove(number.checked_mul(unit_ns)?))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Max => f.write_str("max"),
            Quantity::Percentile(rank) => write!(f, "p{}", f64::from(*rank) / 1000.0),
            Quantity::Noise => f.write_str("noise"),
            Quantity::Gaps => f.write_str("gaps"),
            Quantity::GapsAbove(ns) => {
                let is_whole = |(_, unit_ns): &&(&str, u64)| ns.is_multiple_of(*unit_ns);
                let (unit, unit_ns) = UNITS.iter().find(is_whole).unwrap_or(&UNITS[3]);
                write!(f, "gaps{ABOVE}{}{unit}", ns / unit_ns)
            }
            Quantity::Share(share) => f.write_str(share.name()),
            Quantity::Culprit(CulpritPattern { share: None, who }) => write!(f, "{BY}{who}"),
            Quantity::Culprit(CulpritPattern {
                share: Some(share),
                who,
            }) => write!(f, "{share} {BY}{who}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            "max",
            "p50",
            "p99",
            "p99.9",
            "p99.99",
            "p99.999",
            "noise",
            "gaps",
            "gaps>20us",
            "gaps>1500ns",
            "gaps>1ms",
            "steal",
            "hv_or_hw",
            "by kworker/*",
            "preempted by qemu-*",
        ] {
            let quantity = Quantity::from_name(name).unwrap();
            assert_eq!(quantity.to_string(), name);
        }
        assert_eq!(
            Quantity::from_name("p99.9"),
            Some(Quantity::Percentile(99_900))
        );
        assert_eq!(
            Quantity::from_name("gaps > 20"),
            Some(Quantity::GapsAbove(20_000))
        );
        for wrong in [
            "gaps>",
            "gaps>x",
            "gaps>1h",
            "max>20us",
            "",
            "p",
            "p100",
            "p0",
            "p99.9999",
            "p-1",
            "p1e1",
            "by ",
            "steel",
            "steel by x",
            "standby x",
        ] {
            assert_eq!(Quantity::from_name(wrong), None, "{wrong}");
        }
    }
}
