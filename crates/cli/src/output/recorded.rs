//! Recordings that a prediction was made from, and what of their runs may be missing in them.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{RunFacts, Workload};
use vmnoise_predict::Record;

/// A recording, read.
#[derive(Debug)]
pub struct Recorded {
    /// Where it lies.
    pub file: String,
    /// Whether it is one of a data set, and was not named by itself.
    pub of_data_set: bool,
    /// Which run it is.
    pub origin: Origin,
    /// Ascending by CPU; those that reported nothing are not among them.
    pub cpus: Vec<RecordedCpu>,
    /// What its run could see.
    pub coverage: Coverage,
}

/// Which run of which machine.
#[derive(Debug)]
pub struct Origin {
    /// The vmnoise that recorded.
    pub tool_version: String,
    /// Who observed.
    pub workload: Workload,
    /// When it started, RFC 3339 in UTC.
    pub started_at: String,
    /// The machine's name.
    pub host: Option<String>,
    /// `uname -r`.
    pub kernel: String,
    /// What the machine itself ran on; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// The CPUs that were to be measured, ascending.
    pub cpus: Vec<u32>,
}

impl From<&RunFacts> for Origin {
    fn from(facts: &RunFacts) -> Origin {
        let owned = |name: &str| name.to_owned();
        Origin {
            tool_version: owned(&facts.tool_version),
            workload: facts.workload,
            started_at: owned(&facts.started_at),
            host: facts.host.name.as_deref().map(owned),
            kernel: owned(&facts.host.kernel),
            hypervisor: facts.host.hypervisor.as_deref().map(owned),
            cpus: facts.options.cpus.clone(),
        }
    }
}

/// One CPU of it.
#[derive(Debug)]
pub struct RecordedCpu {
    /// Its gaps, with what each culprit took of them.
    pub record: Record,
    /// How much of its span nobody looked: gaps were written down, or the workload was stopped;
    /// nanoseconds.
    pub unseen_ns: u64,
    /// Gaps of which some of those who took them were lost; `None` where no counter could say.
    pub incomplete_gaps: Option<u64>,
}

impl Recorded {
    /// How long each of its CPUs was looked at, at least; nanoseconds.
    pub fn shortest_ns(&self) -> u64 {
        let spans = self.cpus.iter().map(|cpu| cpu.record.span_ns());
        spans.min().unwrap_or(0)
    }
}
