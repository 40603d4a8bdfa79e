//! Why a verdict is as it is.

use std::fmt;

use serde::Serialize;
use vmnoise_events::Share;

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
    /// There was no value.
    NoValues,
    /// The run was too short to see how much its values depend on one another.
    TooShortToCut,
    /// The run was shorter than was asked for.
    Short {
        /// How long it was.
        length_ns: u64,
        /// What was asked for.
        asked_ns: u64,
    },
    /// Shorter gaps than this were not recorded, and the limit is below.
    Threshold {
        /// The threshold of the recording.
        threshold_ns: u64,
    },
    /// So many gaps or wake-ups were lost: each of them may have been above the limit.
    Lost {
        /// How many.
        count: u64,
    },
    /// Nothing witnessed this share.
    NotWitnessed {
        /// Why not; empty where nothing says so.
        why: String,
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
    /// The TSC went back: nothing later is in the figures.
    ClockWentBack {
        /// Since the begin of the run.
        at_ns: u64,
    },
    /// So many measured CPUs reported nothing.
    Silent {
        /// Which.
        cpus: Vec<u32>,
    },
    /// A thread that was there anyway does not look at the clock: what was taken below this kernel while it ran is in no
    /// gap.
    NotFelt,
    /// The run did not end in order.
    CutOff,
    /// The tool's own threads ran on measured CPUs, and are part of the noise.
    SharedCpus,
    /// What the hypervisor below this machine took could not be seen.
    UnseenBelow {
        /// How much no witness explains, in percent of the noise.
        percent: f64,
    },
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
            Reason::NoValues => f.write_str("there was no gap to take a percentile of"),
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
            Reason::Threshold { threshold_ns } => write!(
                f,
                "gaps below {threshold_ns} ns were not recorded (--threshold), and may be above the limit or fill much time"
            ),
            Reason::Lost { count } => write!(
                f,
                "{count} were lost, and any of them may be above the limit"
            ),
            Reason::NotWitnessed { why } if why.is_empty() => f.write_str("nothing witnessed it"),
            Reason::NotWitnessed { why } => write!(f, "nothing witnessed it: {why}"),
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
            Reason::ClockWentBack { at_ns } => write!(
                f,
                "the TSC went back {:.3} s after the begin, and nothing later is trusted",
                seconds(*at_ns)
            ),
            Reason::Silent { cpus } => {
                let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
                write!(f, "nothing is known of CPU {}: it never reported", cpus.join(","))
            }
            Reason::NotFelt => f.write_str(
                "an observed thread does not feel what is taken below this kernel: measure with a polling thread (without \
                 --pid and --comm)",
            ),
            Reason::CutOff => f.write_str(
                "the run did not end in order: these are the figures of what it had seen",
            ),
            Reason::SharedCpus => {
                f.write_str("vmnoise's own threads ran on measured CPUs, and are part of the noise")
            }
            Reason::UnseenBelow { percent } => write!(
                f,
                "{percent:.1} % of the noise has no witness: what the hypervisor below this machine took is not seen here"
            ),
        }
    }
}
