//! What a recording could see, and why a question about it has no answer.
//!
//! Whoever reads a stream states facts here: when each CPU was measured, from which length on, what was watched, what was
//! lost. Whoever concludes asks [`Coverage::blind_spots`]. Nobody else makes a [`BlindSpot`].

mod answers;
mod blind_spot;
mod facts;
mod merge;
mod question;
#[cfg(test)]
mod tests;
mod words;

pub use blind_spot::{BlindSpot, Hidden, Hides, WhyUnwatched};
pub use facts::{
    ClockCoverage, CommandCoverage, CpuCoverage, HostRecording, HypervisorTime, LostRecords, Pause,
    RunEnd, Watched,
};
pub use question::Question;

use serde::{Serialize, Serializer};

use crate::{Options, Policy, RunFacts, Workload};

/// Threshold of a run that asked for no other, in nanoseconds: shorter gaps count as no loss.
pub const USUAL_THRESHOLD_NS: u64 = 1_000;
/// Writing a gap down counts as disturbed from so many cycles on; shorter disturbances of it are in no gap.
const WRITING_TSC: u128 = 10_000;

/// What a recording could see of its machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    /// Who measured.
    pub workload: Workload,
    /// How the measuring threads were scheduled; `None` where that is not known.
    pub policy: Option<Policy>,
    /// Shorter gaps were not recorded, in nanoseconds; 0 where every length was.
    pub threshold_ns: u64,
    /// A gap that falls into the writing of another one is missed where it is shorter, in nanoseconds.
    pub writing_ns: u64,
    /// One entry for each CPU that was to be measured, or was.
    pub cpus: Vec<CpuCoverage>,
    /// Which part of each period was measured; `None` where all of it was.
    pub pause: Option<Pause>,
    /// How long the run was to be, in nanoseconds; `None` where that was open.
    pub planned_ns: Option<u64>,
    /// How the run ended.
    pub end: RunEnd,
    /// What was lost.
    pub lost: LostRecords,
    /// Whether gaps are longer than the time that was measured: the stream is damaged.
    pub more_taken_than_measured: bool,
    /// What was watched.
    pub watched: Watched,
    /// How far the clocks can be trusted.
    pub clock: ClockCoverage,
    /// Recordings of other machines that were taken together with this one.
    pub others: Vec<String>,
    /// What a host's recording adds; `None` where none was read.
    pub host: Option<HostRecording>,
    /// What is known of the threads of a command; `None` of recordings.
    pub command: Option<CommandCoverage>,
}

impl Coverage {
    /// A recording of this workload of which nothing else is known, and nothing known to be hidden.
    pub fn of_workload(workload: Workload) -> Coverage {
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
            watched: Watched::default(),
            clock: ClockCoverage::default(),
            others: Vec::new(),
            host: None,
            command: None,
        }
    }

    /// What is known of a command's threads, which were there anyway.
    pub fn of_command(command: CommandCoverage) -> Coverage {
        Coverage {
            command: Some(command),
            ..Coverage::of_workload(Workload::Observed)
        }
    }

    /// Everything that is known before the first event: a recording without a last record was cut off.
    pub fn of(facts: &RunFacts) -> Coverage {
        let options = &facts.options;
        Coverage {
            // Inherited from a shell, as a rule.
            policy: Some(options.priority.unwrap_or(Policy::Other(0))),
            threshold_ns: match facts.workload {
                // Every wake-up is a value, and the kernel counts every exit.
                Workload::Timerlat | Workload::Exits => 0,
                Workload::Microvm | Workload::Osnoise | Workload::Observed => options.threshold_ns,
            },
            writing_ns: writing_ns(facts),
            cpus: options.cpus.iter().copied().map(CpuCoverage::of).collect(),
            pause: Pause::of(options),
            planned_ns: Some(options.duration_ns).filter(|ns| *ns < Options::FOREVER_NS),
            end: RunEnd::CutOff,
            watched: Watched::of(facts),
            ..Coverage::of_workload(facts.workload)
        }
    }

    /// The same of one CPU alone.
    pub fn on_cpu(&self, cpu: u32) -> Coverage {
        let mut one = self.clone();
        one.cpus.retain(|it| it.cpu == cpu);
        one
    }

    /// How long the CPU that was measured longest was, from its first reading to its last; nanoseconds.
    pub fn measured_ns(&self) -> u64 {
        let windows = self.cpus.iter().filter_map(|it| it.window_mono_ns);
        let lengths = windows.map(|(from_ns, to_ns)| to_ns.saturating_sub(from_ns));
        lengths.max().unwrap_or(0)
    }
}

/// All that a reader may want to know of what is hidden.
impl Serialize for Coverage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.blind_spots(Question::Anything).serialize(serializer)
    }
}

/// A polling loop looks at nothing while it writes a gap down.
fn writing_ns(facts: &RunFacts) -> u64 {
    match facts.workload {
        Workload::Microvm | Workload::Osnoise => {
            let ns = WRITING_TSC * 1_000_000_000 / u128::from(facts.clock.tsc_hz.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        }
        Workload::Observed | Workload::Exits | Workload::Timerlat => 0,
    }
}
