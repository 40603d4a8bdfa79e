//! Coverage: the facts that a recording could see. The coverage decides which questions about the
//! recording have no answer, and why.
//!
//! The code that reads a stream fills a [`Coverage`]: when each CPU was measured, the threshold,
//! the watched events and the losses. The code that answers a question calls
//! [`Coverage::blind_spots`]. No other code makes a [`BlindSpot`].

mod answers;
mod blind_spot;
mod facts;
mod merge;
mod question;
#[cfg(test)]
mod tests;
mod words;

pub use blind_spot::{BlindSpot, Hidden, HiddenKind, WhyUnwatched};
pub use facts::{
    ClockCoverage, CommandCoverage, CpuCoverage, HostRecording, HypervisorTime, LostRecords, Pause,
    RunEnd, ShortPreflight, WatchedClasses,
};
pub use question::Question;

use serde::{Serialize, Serializer};

use crate::{MeasuringCommand, Policy, RunFacts, RunOptions};

/// Default threshold of a run, in nanoseconds. If gaps below this length are missing, vmnoise does
/// not report a blind spot.
pub const USUAL_THRESHOLD_NS: u64 = 1_000;
/// Length, in TSC cycles, up to which a polling loop misses a gap while it records another gap. A
/// longer interruption is recorded as a gap of its own.
const WRITING_TSC: u128 = 10_000;

/// Coverage of one recording: the facts about the machine that it could see.
#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    /// Workload that measured.
    pub workload: MeasuringCommand,
    /// Scheduling policy of the measuring threads; `None` if unknown.
    pub policy: Option<Policy>,
    /// Length below which gaps were not recorded, in nanoseconds; 0 if gaps of every length were
    /// recorded.
    pub threshold_ns: u64,
    /// Length, in nanoseconds, below which a gap is missed if it begins while another gap is being
    /// recorded.
    pub writing_ns: u64,
    /// One entry for each CPU that was measured or should have been measured.
    pub cpus: Vec<CpuCoverage>,
    /// Measured part of each period; `None` if the whole period was measured.
    pub pause: Option<Pause>,
    /// Planned duration, in nanoseconds; `None` if the run had no time limit.
    pub planned_ns: Option<u64>,
    /// How the run ended.
    pub end: RunEnd,
    /// Numbers of lost records.
    pub lost: LostRecords,
    /// Whether the gaps add up to more than the measured time. If so, the stream is damaged.
    pub more_taken_than_measured: bool,
    /// Whether the recording was read from a data set that stores neither the end of the run nor
    /// jumps of a clock.
    pub unstored: bool,
    /// Watched events and layers.
    pub watched: WatchedClasses,
    /// Facts about the clocks that limit which times can be trusted.
    pub clock: ClockCoverage,
    /// Recordings of other machines in the same call of vmnoise.
    pub others: Vec<String>,
    /// Facts that a host's recording adds; `None` if no such recording was read.
    pub host: Option<HostRecording>,
    /// Facts about the threads of a command; `None` for recordings.
    pub command: Option<CommandCoverage>,
}

impl Coverage {
    /// Returns the coverage of a recording of this workload. No fact is known yet, and no blind
    /// spot.
    pub fn of_workload(workload: MeasuringCommand) -> Coverage {
        Coverage {
            workload,
            policy: None,
            threshold_ns: 0,
            writing_ns: 0,
            cpus: Vec::new(),
            pause: None,
            planned_ns: None,
            end: RunEnd::InOrder,
            lost: LostRecords::default(),
            more_taken_than_measured: false,
            unstored: false,
            watched: WatchedClasses::default(),
            clock: ClockCoverage::default(),
            others: Vec::new(),
            host: None,
            command: None,
        }
    }

    /// Returns the coverage of the threads of a command that vmnoise observed.
    pub fn of_command(command: CommandCoverage) -> Coverage {
        Coverage {
            command: Some(command),
            ..Coverage::of_workload(MeasuringCommand::Observed)
        }
    }

    /// Returns the coverage that is known before the first event. The recording counts as cut off
    /// until its last record is read.
    pub fn of(facts: &RunFacts) -> Coverage {
        let options = &facts.options;
        Coverage {
            // A run without a requested policy usually inherits the policy of a shell.
            policy: Some(options.priority.unwrap_or(Policy::Other(0))),
            threshold_ns: match facts.workload {
                // Every wake-up is recorded, and the kernel counts every exit.
                MeasuringCommand::Timerlat | MeasuringCommand::Exits => 0,
                MeasuringCommand::Microvm
                | MeasuringCommand::Osnoise
                | MeasuringCommand::Observed => options.threshold_ns,
            },
            writing_ns: writing_ns(facts),
            cpus: options.cpus.iter().copied().map(CpuCoverage::of).collect(),
            pause: Pause::of(options),
            planned_ns: Some(options.duration_ns).filter(|ns| *ns < RunOptions::FOREVER_NS),
            end: RunEnd::CutOff,
            watched: WatchedClasses::of(facts),
            ..Coverage::of_workload(facts.workload)
        }
    }

    /// Returns the same coverage, reduced to one CPU.
    pub fn on_cpu(&self, cpu: u32) -> Coverage {
        let mut one = self.clone();
        one.cpus.retain(|it| it.cpu == cpu);
        one
    }

    /// Returns the longest measured time of a CPU, from its first to its last reading, in
    /// nanoseconds.
    pub fn measured_ns(&self) -> u64 {
        let windows = self.cpus.iter().filter_map(|it| it.window_mono_ns);
        let lengths = windows.map(|(from_ns, to_ns)| to_ns.saturating_sub(from_ns));
        lengths.max().unwrap_or(0)
    }

    /// Returns the time in which the workload observed nothing, at unknown times. Sum over all
    /// CPUs, in nanoseconds.
    pub fn unplaced_ns(&self) -> u64 {
        let unplaced_ns = self.cpus.iter().map(|it| it.unplaced_ns);
        unplaced_ns.fold(0, u64::saturating_add)
    }
}

/// The JSON list has every blind spot that can change any answer.
impl Serialize for Coverage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.blind_spots(Question::Anything).serialize(serializer)
    }
}

/// Returns the length, in nanoseconds, of the longest gap that a polling loop misses while it
/// records another gap.
fn writing_ns(facts: &RunFacts) -> u64 {
    match facts.workload {
        MeasuringCommand::Microvm | MeasuringCommand::Osnoise => {
            let ns = WRITING_TSC * 1_000_000_000 / u128::from(facts.clock.tsc_hz.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        }
        MeasuringCommand::Observed | MeasuringCommand::Exits | MeasuringCommand::Timerlat => 0,
    }
}
