//! Recordings on which a prediction is based, with their coverage.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{MeasuringCommand, RunFacts};
use vmnoise_predict::CpuRecord;

/// Recording that vmnoise has read.
#[derive(Debug)]
pub struct ReadRecording {
    /// Path of the recording.
    pub file: String,
    /// Whether the recording is part of a data set. If not, the user named its file.
    pub of_data_set: bool,
    /// Machine and run of the recording.
    pub origin: Origin,
    /// CPUs that the run measured, in ascending order.
    pub cpus: Vec<RecordedCpu>,
    /// Coverage of the run.
    pub coverage: Coverage,
}

/// Machine and run of a recording.
#[derive(Debug)]
pub struct Origin {
    /// Version of vmnoise that made the recording.
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
    /// CPUs that the run was asked to measure, in ascending order.
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
    /// Unobserved time between the start and the end of the CPU's measurement, in nanoseconds. The
    /// workload was stopped, or was storing gaps.
    pub unseen_ns: u64,
    /// Number of gaps that lack some of their culprits, because records were lost; `None` if
    /// unknown.
    pub incomplete_gaps: Option<u64>,
}

impl ReadRecording {
    /// Returns the measured time of the CPU that was measured for the shortest time, in
    /// nanoseconds.
    pub fn shortest_ns(&self) -> u64 {
        let spans = self.cpus.iter().map(|cpu| cpu.record.span_ns());
        spans.min().unwrap_or(0)
    }
}
