//! Why a verdict is as it is.

use std::fmt;

use serde::Serialize;
use vmnoise_events::coverage::BlindSpot;
use vmnoise_events::{Share, human};

use super::evidence::WINDOWS;
use super::odds::ENOUGH_WINDOWS;

/// One reason. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// It is above the limit.
    Above,
    /// It is above what is a warning.
    AboveWarning,
    /// So few values do not tell, one way or the other.
    TooFew {
        /// How many there were.
        count: u64,
        /// How many to ask for; `None` where more than a u64 would be needed.
        needed: Option<u64>,
    },
    /// The run is too short to decide a rate.
    TooShort {
        /// Length that most likely decides, in nanoseconds; `None` if no length does.
        needed_ns: Option<u64>,
    },
    /// No more values are above the limit than may be, but the run may have missed bursts of them.
    Unmet {
        /// The limit, in nanoseconds.
        above_ns: u64,
        /// Number of windows of the run with such values.
        windows: usize,
        /// Length of a run that would have met them, in nanoseconds; `None` if no length would.
        needed_ns: Option<u64>,
    },
    /// The limit is kept under an assumption about bursts of values above it.
    Assuming {
        /// The limit, in nanoseconds.
        above_ns: u64,
        /// Longest burst that is assumed, in nanoseconds; `None` if bursts are assumed to be as in this run.
        burst_ns: Option<u64>,
    },
    /// A percentile of gaps shrinks if there are more short gaps.
    OfGaps,
    /// There was no value.
    NoValues,
    /// No CPU ran for as long as its gaps are.
    NoRuntime,
    /// The run was too short to see how much its values depend on one another.
    TooShortToCut,
    /// The run was shorter than was asked for.
    Short {
        /// How long it was.
        length_ns: u64,
        /// What was asked for.
        asked_ns: u64,
    },
    /// Nobody in this run has such a name.
    Nobody,
    /// So much besides may be of this share or culprit.
    MayBe {
        /// What is at most, in percent of the runtime.
        at_most_percent: f64,
        /// As what it is booked.
        booked_as: Vec<Share>,
        /// What of it follows from the bound between the clocks.
        clock_percent: f64,
    },
    /// The tool's own threads ran on measured CPUs, and are part of the noise.
    SharedCpus,
    /// What the hypervisor below this machine took could not be seen.
    UnseenBelow {
        /// How much no probe explains, in percent of the noise.
        percent: f64,
    },
    /// The recording could not see it.
    #[serde(untagged)]
    Blind(BlindSpot),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        match self {
            Reason::Above => f.write_str("above the limit"),
            Reason::AboveWarning => f.write_str("within the limit, and above the warning"),
            Reason::TooFew {
                count,
                needed: Some(needed),
            } => write!(
                f,
                "{count} values do not tell; ask for {needed}"
            ),
            Reason::TooFew {
                count,
                needed: None,
            } => write!(f, "{count} values do not tell, nor would any number"),
            Reason::TooShort {
                needed_ns: Some(needed_ns),
            } => write!(
                f,
                "the run is too short to decide; measure for {:.0} s",
                seconds(*needed_ns).ceil()
            ),
            Reason::TooShort { needed_ns: None } => {
                f.write_str("no run shows that there are none at all; allow more than 0")
            }
            Reason::Unmet {
                above_ns, windows, ..
            } => write!(
                f,
                "values above {} may come in bursts that this run missed: {windows} of its {WINDOWS} windows have any, and \
                 {ENOUGH_WINDOWS} would show how they come",
                human(*above_ns)
            ),
            Reason::Assuming {
                above_ns,
                burst_ns: Some(burst_ns),
            } => write!(
                f,
                "assumes that values above {} come in bursts of at most {}, no closer together than other values",
                human(*above_ns),
                human(*burst_ns)
            ),
            Reason::Assuming {
                above_ns,
                burst_ns: None,
            } => write!(
                f,
                "assumes that values above {} come in no longer bursts than in this run",
                human(*above_ns)
            ),
            Reason::OfGaps => f.write_str(
                "more short gaps make a percentile smaller: limit how many long ones come in a second (--limit 'gaps>20us=5')",
            ),
            Reason::NoValues => f.write_str("there was no gap to take a percentile of"),
            Reason::NoRuntime => {
                f.write_str("no CPU ran for as long as its gaps are; record again")
            }
            Reason::TooShortToCut => {
                f.write_str("the run is too short to see how much its values depend on one another")
            }
            Reason::Short {
                length_ns,
                asked_ns,
            } => write!(
                f,
                "the run was {:.3} s long, and {:.3} s were asked for",
                seconds(*length_ns),
                seconds(*asked_ns)
            ),
            Reason::Nobody => f.write_str("nobody in this run has such a name"),
            Reason::MayBe {
                at_most_percent,
                booked_as,
                clock_percent,
            } => {
                write!(f, "it may be up to {at_most_percent:.4} %")?;
                if !booked_as.is_empty() {
                    let names: Vec<&str> = booked_as.iter().map(|share| share.name()).collect();
                    write!(f, ": what is booked as {} may be of it", names.join(", "))?;
                }
                match *clock_percent > 0.0 {
                    true => write!(f, "; the clocks' bound is {clock_percent:.4} % of that"),
                    false => Ok(()),
                }
            }
            Reason::SharedCpus => {
                f.write_str("vmnoise's own threads ran on measured CPUs, and are part of the noise")
            }
            Reason::UnseenBelow { percent } => write!(
                f,
                "no probe explains {percent:.1} % of the noise: what the hypervisor below this machine took is not seen here"
            ),
            Reason::Blind(spot) => spot.fmt(f),
        }
    }
}
