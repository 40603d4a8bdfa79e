//! Recordings that a prediction was made from, with their coverage.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{MeasuringCommand, RunFacts};
use vmnoise_predict::CpuRecord;

/// Recording that was read.
#[derive(Debug)]
pub struct ReadRecording {
    /// Path of the recording.
    pub file: String,
    /// Whether the recording belongs to a data set, and was not named individually.
    pub of_data_set: bool,
    /// Origin of the recording.
    pub origin: Origin,
    /// CPUs that reported something, in ascending order.
    pub cpus: Vec<RecordedCpu>,
    /// Coverage of its run.
    pub coverage: Coverage,
}

/// Machine and run of a recording.
#[derive(Debug)]
pub struct Origin {
    /// Version of vmnoise that recorded.
    pub tool_version: String,
    /// Workload of the run.
    pub workload: MeasuringCommand,
    /// Start of the run, RFC 3339 in UTC.
    pub started_at: String,
    /// Name of the machine.
    pub host: Option<String>,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Hypervisor below the machine; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// CPUs that were to be measured, in ascending order.
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

/// One CPU of a recording.
#[derive(Debug)]
pub struct RecordedCpu {
    /// Gaps of the CPU, with the time that each culprit took.
    pub record: CpuRecord,
    /// Unobserved time in its span, in nanoseconds: the workload was stopped, or was storing gaps.
    pub unseen_ns: u64,
    /// Number of gaps for which the activities of some culprits were lost; `None` if no counter
    /// says this.
    pub incomplete_gaps: Option<u64>,
}

impl ReadRecording {
    /// Returns the shortest span of its CPUs, in nanoseconds.
    pub fn shortest_ns(&self) -> u64 {
        let spans = self.cpus.iter().map(|cpu| cpu.record.span_ns());
        spans.min().unwrap_or(0)
    }
}
