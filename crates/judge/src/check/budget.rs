//! What a run may have at most.

use std::fmt;

use vmnoise_events::{Name, Share};

use crate::compare::Unit;

/// All that is asked of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    /// Limits, in the order in which they were asked for.
    pub requirements: Vec<Requirement>,
    /// How long the run has to be at least, nanoseconds.
    pub runtime_ns: Option<u64>,
}

impl Budget {
    /// Adds those of another one that are not limited here.
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

/// One limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// Of what.
    pub quantity: Quantity,
    /// It may not be more, in the quantity's unit.
    pub at_most: f64,
    /// Where it is more than this, a limit that is kept is a warning.
    pub warn_above: Option<f64>,
}

/// What is limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quantity {
    /// The longest gap or the latest wake-up, nanoseconds.
    Max,
    /// The length that so many of 100,000 gaps or wake-ups do not exceed, nanoseconds.
    Percentile(u32),
    /// All gaps, in percent of the runtime.
    Noise,
    /// How many gaps, per second of the runtime.
    Gaps,
    /// Number of gaps longer than so many nanoseconds, per second of a CPU's runtime.
    GapsAbove(u64),
    /// What one share took, in percent of the runtime.
    Share(Share),
    /// What somebody took, in percent of the runtime.
    Culprit(Culprit),
}

/// Who took time, by a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culprit {
    /// Under this share alone; `None` under any.
    pub share: Option<Share>,
    /// Their names: `*` is any characters, `?` one.
    pub who: Name,
}

/// All there are.
const RANKS: u32 = 100_000;
/// Between a share and who took it.
const BY: &str = "by ";
/// The sign between `gaps` and the length above which they count.
const ABOVE: char = '>';
/// Units of that length, in nanoseconds.
const UNITS: [(&str, u64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Quantity {
    /// Returns the quantity with this name, if there is one: `max`, `p99.9`, `noise`, `gaps`, `gaps>20us`, a share,
    /// `by WHO`, or `SHARE by WHO`.
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
            return (!who.is_empty()).then_some(Quantity::Culprit(Culprit { share, who }));
        }
        match name {
            "max" => Some(Quantity::Max),
            "noise" => Some(Quantity::Noise),
            "gaps" => Some(Quantity::Gaps),
            _ if name.contains(ABOVE) => gaps_above(name),
            _ => percentile(name).or_else(|| share(name).map(Quantity::Share)),
        }
    }

    /// What its numbers are.
    pub fn unit(&self) -> Unit {
        match self {
            Quantity::Max | Quantity::Percentile(_) => Unit::Nanoseconds,
            Quantity::Gaps | Quantity::GapsAbove(_) => Unit::PerSecond,
            Quantity::Noise | Quantity::Share(_) | Quantity::Culprit(_) => Unit::Percent,
        }
    }

    /// Whether it is of wake-ups as it is of gaps.
    pub fn is_of_latencies(&self) -> bool {
        matches!(self, Quantity::Max | Quantity::Percentile(_))
    }

    /// Whether a run gives an estimate of it, and not the figure itself.
    pub(super) fn is_estimated(&self) -> bool {
        matches!(self, Quantity::Percentile(_) | Quantity::GapsAbove(_))
    }

    /// Whether the longest gap or wake-up explains why it is broken.
    pub fn is_broken_by_the_longest(&self) -> bool {
        self.is_of_latencies() || matches!(self, Quantity::GapsAbove(_))
    }

    /// The part of all values that may be above it, 0 to 1; `None` of what is no percentile.
    pub(super) fn part_above(&self) -> Option<f64> {
        match self {
            Quantity::Percentile(rank) => Some(1.0 - f64::from(*rank) / f64::from(RANKS)),
            _ => None,
        }
    }
}

/// `p50` to `p99.999`.
fn percentile(name: &str) -> Option<Quantity> {
    let number = name.strip_prefix('p')?;
    let plain = number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let percent: f64 = number.parse().ok().filter(|_| plain)?;
    let rank = percent * f64::from(RANKS) / 100.0;
    // More digits than there are ranks would be cut off without a word.
    let is_rank = (rank - rank.round()).abs() < 1e-6 && rank >= 1.0 && rank < f64::from(RANKS);
    is_rank.then(|| Quantity::Percentile(rank.round() as u32))
}

/// Reads `gaps>20us`; a number without a unit is in microseconds.
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
            Quantity::Culprit(Culprit { share: None, who }) => write!(f, "{BY}{who}"),
            Quantity::Culprit(Culprit {
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
