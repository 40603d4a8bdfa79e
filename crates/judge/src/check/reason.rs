//! Reasons for a verdict on a limit or a run.

use std::fmt;

use serde::Serialize;
use vmnoise_events::coverage::BlindSpot;
use vmnoise_events::{Share, human};

use super::evidence::WINDOWS;
use super::odds::ENOUGH_WINDOWS;

/// Reason for a verdict. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// The figure is above the limit.
    Above,
    /// The figure is above its warning level.
    AboveWarning,
    /// There are too few values for a verdict.
    TooFew {
        /// Number of values in the run.
        count: u64,
        /// Recommended number of values; `None` if a u64 cannot hold it.
        needed: Option<u64>,
    },
    /// The run is too short to decide about a rate.
    TooShort {
        /// Recommended length of the run; `None` if no length decides.
        needed_ns: Option<u64>,
    },
    /// No more values are above the limit than allowed, but the run may have missed bursts.
    Unmet {
        /// Limit for a value, in nanoseconds.
        above_ns: u64,
        /// Number of windows with values above the limit.
        windows: usize,
        /// Length of a run that would have contained the bursts, in nanoseconds; `None` if no
        /// length would.
        needed_ns: Option<u64>,
    },
    /// The limit is kept under an assumption about bursts of values above it.
    Assuming {
        /// Limit for a value, in nanoseconds.
        above_ns: u64,
        /// Length of the longest assumed burst, in nanoseconds; `None` if bursts are assumed to be
        /// as in this run.
        burst_ns: Option<u64>,
    },
    /// More short gaps make a percentile of gaps smaller, so the limit says little without a rate.
    OfGaps,
    /// There was no gap and no wake-up.
    NoValues,
    /// The measured time is 0, or less than the time of all gaps.
    NoRuntime,
    /// The run is too short to show how strongly its values depend on each other.
    TooShortToCut,
    /// The run was shorter than required.
    Short {
        /// Length of the run.
        length_ns: u64,
        /// Required length.
        asked_ns: u64,
    },
    /// No culprit in this run has a name that matches the pattern.
    Nobody,
    /// The share or the culprit may have taken more time than counted.
    MayBe {
        /// Upper bound of the time, in percent of the runtime.
        at_most_percent: f64,
        /// Shares that may contain more time of the share or the culprit.
        booked_as: Vec<Share>,
        /// Part of the upper bound that is clock error, in percent of the runtime.
        clock_percent: f64,
    },
    /// Threads of vmnoise ran on measured CPUs and are part of the noise.
    SharedCpus,
    /// No recording shows the time that the hypervisor below this machine took.
    UnseenBelow {
        /// Time that no probe explains, in percent of the noise.
        percent: f64,
    },
    /// The recording has a blind spot that hides the answer.
    #[serde(untagged)]
    Blind(BlindSpot),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        match self {
            Reason::Above => f.write_str("above the limit"),
            Reason::AboveWarning => f.write_str("within the limit, but above the warning"),
            Reason::TooFew {
                count,
                needed: Some(needed),
            } => write!(f, "{count} values are too few for a verdict; record {needed}"),
            Reason::TooFew {
                count,
                needed: None,
            } => write!(
                f,
                "{count} values are too few for a verdict, and so is any number; set another limit"
            ),
            Reason::TooShort {
                needed_ns: Some(needed_ns),
            } => write!(
                f,
                "the run is too short for a verdict; measure for {:.0} s",
                seconds(*needed_ns).ceil()
            ),
            Reason::TooShort { needed_ns: None } => {
                f.write_str("no run shows that there are no such gaps at all; allow more than 0")
            }
            Reason::Unmet {
                above_ns, windows, ..
            } => write!(
                f,
                "values above {} may come in bursts that this run missed: {windows} of its {WINDOWS} windows \
                 have any, and {ENOUGH_WINDOWS} would show how they come; measure for longer",
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
                "more short gaps make a percentile smaller; limit the rate of long gaps, too (--limit \
                 'gaps>20us=5')",
            ),
            Reason::NoValues => f.write_str(
                "no gap or wake-up was recorded, so there is no percentile; record for longer",
            ),
            Reason::NoRuntime => {
                f.write_str("the measured time is 0, or shorter than its gaps; record again")
            }
            Reason::TooShortToCut => f.write_str(
                "the run is too short to cut into windows, which show how alike its values are; record for \
                 longer",
            ),
            Reason::Short {
                length_ns,
                asked_ns,
            } => write!(
                f,
                "the run was {:.3} s long, and {:.3} s are required; record for longer",
                seconds(*length_ns),
                seconds(*asked_ns)
            ),
            Reason::Nobody => f.write_str("no culprit in this run has such a name"),
            Reason::MayBe {
                at_most_percent,
                booked_as,
                clock_percent,
            } => {
                write!(f, "it may be up to {at_most_percent:.4} %")?;
                if !booked_as.is_empty() {
                    let names: Vec<&str> = booked_as.iter().map(|share| share.name()).collect();
                    write!(f, ": time of {} may belong to it", names.join(", "))?;
                }
                match *clock_percent > 0.0 {
                    true => write!(f, "; this includes a clock error of {clock_percent:.4} %"),
                    false => Ok(()),
                }
            }
            Reason::SharedCpus => {
                f.write_str("vmnoise's own threads ran on measured CPUs, and are part of the noise")
            }
            Reason::UnseenBelow { percent } => write!(
                f,
                "no probe explains {percent:.1} % of the noise: time that the hypervisor took is not visible \
                 here; measure on the host"
            ),
            Reason::Blind(spot) => spot.fmt(f),
        }
    }
}
