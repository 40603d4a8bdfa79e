//! Runs a command once, and measures the CPU time that was taken from it.

pub mod preflight;
mod process;
mod procfs;
mod rate;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::coverage::{CommandCoverage, Coverage};
use vmnoise_judge::fitness::{FitnessEvidence, Range};
use vmnoise_tracer::{Family, LoadError};
use vmnoise_views::{CommandRun, QuietCpu, RunEvidence};

pub use process::CannotStart;
use process::RunningCommand;
use rate::RateWitness;

/// Longest time to wait for the last context switch of a process. The kernel reports this switch
/// after the parent has seen the end of the process.
const LAST_SWITCHES: Duration = Duration::from_millis(50);

/// Returns the evidence for a verdict on a run. It includes the rate that the preflight measured.
pub fn evidence(run: &CommandRun, preflight: Option<&[QuietCpu]>) -> FitnessEvidence {
    match &run.seen {
        RunEvidence::Traced {
            look,
            sees_steal,
            sees_nmi,
        } => {
            let hypervisor = preflight::hypervisor_rate(preflight);
            FitnessEvidence::traced(look, run.wall_ns, *sees_steal, *sees_nmi, hypervisor)
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
                wall_ns: run.wall_ns,
                of_ns: run.wall_ns.max(found.ran_ns + found.waited_ns),
                coverage: Coverage::of_command(CommandCoverage {
                    untraced: Some(why.clone()),
                    threads: found.threads,
                    ..CommandCoverage::default()
                }),
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
