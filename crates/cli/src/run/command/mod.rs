//! Runs a command once, and measures the CPU time that was taken from it.

pub mod preflight;
mod process;
mod procfs;
mod rate;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::FamilyLook;
use vmnoise_events::coverage::{CommandCoverage, Coverage};
use vmnoise_judge::fitness::{FitnessEvidence, Range};
use vmnoise_tracer::{Family, LoadError};

use preflight::QuietCpu;
use process::RunningCommand;
pub use process::{CannotStart, ProcessEnd};
pub use procfs::FromProc;
use rate::RateWitness;
pub use rate::RunRate;

/// Longest time to wait for the last context switch of a process. The kernel reports this switch
/// after the parent has seen the end of the process.
const LAST_SWITCHES: Duration = Duration::from_millis(50);

/// Measurements of a run, from the source that was available.
#[derive(Debug)]
pub enum RunEvidence {
    /// BPF followed all scheduling events of the command's threads.
    Traced {
        /// Sums of these events.
        look: Box<FamilyLook>,
        /// Whether steal time is visible, or there is no hypervisor.
        sees_steal: bool,
        /// Whether NMIs are seen.
        sees_nmi: bool,
    },
    /// BPF was not available, so /proc was read.
    Read {
        /// Reason why BPF was not available, and the remedy.
        why: String,
        /// Sums from /proc.
        found: FromProc,
    },
}

/// Result of one run of the command.
#[derive(Debug)]
pub struct CommandRun {
    /// Exit status of the command.
    pub ended: ProcessEnd,
    /// Wall-clock time of the run.
    pub wall_ns: u64,
    /// Measured time and its source.
    pub seen: RunEvidence,
    /// Work rate of the command's threads while they had a CPU, or why it is unknown.
    pub rate: Result<RunRate, String>,
}

impl CommandRun {
    /// Returns the evidence for a verdict. It includes the rate that the preflight measured.
    pub fn evidence(&self, preflight: Option<&[QuietCpu]>) -> FitnessEvidence {
        match &self.seen {
            RunEvidence::Traced {
                look,
                sees_steal,
                sees_nmi,
            } => {
                let hypervisor = preflight::hypervisor_rate(preflight);
                FitnessEvidence::traced(look, self.wall_ns, *sees_steal, *sees_nmi, hypervisor)
            }
            RunEvidence::Read { why, found } => {
                // A command with several threads or children may have waited for one of them.
                let taken_ns = match found.is_alone {
                    true => found.waited_ns,
                    false => 0,
                };
                let range = |least| Range { least, most: None };
                FitnessEvidence {
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

/// Runs a command to its end and measures its threads meanwhile.
///
/// # Errors
/// [`CannotStart`], or if the kernel's counts cannot be read.
pub fn run(command: &[OsString]) -> Result<CommandRun> {
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
        .context("setting which command the BPF programs follow")?;
    let mut rate = RateWitness::of_next_command();
    let mut started = RunningCommand::new(command)?;
    let (ended, wall_ns) = started.end(process::SELDOM, |_| rate.look())?;
    let until = Instant::now() + LAST_SWITCHES;
    let look = loop {
        let look = family.look().context("reading what the BPF programs saw")?;
        if look.alive.is_empty() || Instant::now() >= until {
            break look;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    Ok(CommandRun {
        ended,
        wall_ns,
        seen: RunEvidence::Traced {
            look: Box::new(look),
            sees_steal: family.sees_steal(),
            sees_nmi: family.sees_nmi(),
        },
        rate: rate.finish(),
    })
}

fn untraced(command: &[OsString], why: String) -> Result<CommandRun> {
    let mut reader = procfs::ProcessReader::new();
    let mut rate = RateWitness::of_next_command();
    let mut started = RunningCommand::new(command)?;
    let (ended, wall_ns) = started.end(process::OFTEN, |pid| {
        reader.look(pid);
        rate.look();
    })?;
    Ok(CommandRun {
        ended,
        wall_ns,
        seen: RunEvidence::Read {
            why,
            found: reader.finish(),
        },
        rate: rate.finish(),
    })
}
