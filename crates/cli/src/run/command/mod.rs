//! One run of a command, and what was taken from it.

pub mod preflight;
mod process;
mod procfs;
mod rate;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::FamilyLook;
use vmnoise_events::coverage::{CommandCoverage, Coverage};
use vmnoise_judge::fitness::{Evidence, Range};
use vmnoise_tracer::{Family, LoadError};

use preflight::QuietCpu;
use process::Started;
pub use process::{CannotStart, Ended};
pub use procfs::FromProc;
use rate::RateWitness;
pub use rate::RunRate;

/// The last switch of a process comes after its parent knows that it has ended.
const LAST_SWITCHES: Duration = Duration::from_millis(50);

/// What is known of a run.
#[derive(Debug)]
pub enum Seen {
    /// All events of its threads were followed.
    Traced {
        /// What they say.
        look: Box<FamilyLook>,
        /// Whether the hypervisor tells what it takes, or there is none.
        sees_steal: bool,
        /// Whether NMIs are seen.
        sees_nmi: bool,
    },
    /// They could not be, and this is why, and what would help.
    Read {
        /// Why they could not be.
        why: String,
        /// What /proc says.
        found: FromProc,
    },
}

/// A run of the command.
#[derive(Debug)]
pub struct Done {
    /// How the command ended.
    pub ended: Ended,
    /// How long it took.
    pub wall_ns: u64,
    /// What was seen.
    pub seen: Seen,
    /// How fast its threads worked while they had a CPU, or why nobody knows.
    pub rate: Result<RunRate, String>,
}

impl Done {
    /// Returns the evidence for a verdict, with what the preflight measured.
    pub fn evidence(&self, preflight: Option<&[QuietCpu]>) -> Evidence {
        match &self.seen {
            Seen::Traced {
                look,
                sees_steal,
                sees_nmi,
            } => {
                let hypervisor = preflight::hypervisor_rate(preflight);
                Evidence::traced(look, self.wall_ns, *sees_steal, *sees_nmi, hypervisor)
            }
            Seen::Read { why, found } => {
                // Who has others, threads or children, may have waited for one of them.
                let taken_ns = match found.is_alone {
                    true => found.waited_ns,
                    false => 0,
                };
                let range = |least| Range { least, most: None };
                Evidence {
                    taken_ns: range(taken_ns),
                    longest_ns: range(0),
                    worst_thread_ns: range(taken_ns),
                    wall_ns: self.wall_ns,
                    of_ns: self.wall_ns.max(found.ran_ns + found.waited_ns),
                    coverage: Coverage::of_command(CommandCoverage {
                        untraced: Some(why.clone()),
                        threads: found.threads,
                        ..CommandCoverage::default()
                    }),
                }
            }
        }
    }
}

/// Runs a command to its end, and looks at its threads meanwhile.
///
/// # Errors
/// [`CannotStart`], or if the kernel does not say what it saw.
pub fn run(command: &[OsString]) -> Result<Done> {
    let mut family = match Family::load() {
        Ok(family) => family,
        Err(LoadError::Refused { why, remedy }) => {
            return untraced(command, format!("{why}; {remedy}"));
        }
        Err(error) => return Err(error.into()),
    };
    family.attach()?;
    family
        .starts_next()
        .context("telling the kernel which command is followed")?;
    let mut rate = RateWitness::of_next_command();
    let mut started = Started::new(command)?;
    let (ended, wall_ns) = started.end(process::SELDOM, |_| rate.look())?;
    let until = Instant::now() + LAST_SWITCHES;
    let look = loop {
        let look = family.look().context("reading what the kernel saw")?;
        if look.alive.is_empty() || Instant::now() >= until {
            break look;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    Ok(Done {
        ended,
        wall_ns,
        seen: Seen::Traced {
            look: Box::new(look),
            sees_steal: family.sees_steal(),
            sees_nmi: family.sees_nmi(),
        },
        rate: rate.finish(),
    })
}

fn untraced(command: &[OsString], why: String) -> Result<Done> {
    let mut reader = procfs::Reader::new();
    let mut rate = RateWitness::of_next_command();
    let mut started = Started::new(command)?;
    let (ended, wall_ns) = started.end(process::OFTEN, |pid| {
        reader.look(pid);
        rate.look();
    })?;
    Ok(Done {
        ended,
        wall_ns,
        seen: Seen::Read {
            why,
            found: reader.finish(),
        },
        rate: rate.finish(),
    })
}
