//! Recordings that a prediction was made from, and what of their runs may be missing in them.

use vmnoise_events::RunFacts;
use vmnoise_predict::Record;

/// A recording, read.
#[derive(Debug)]
pub struct Recorded {
    /// Where it lies.
    pub file: String,
    /// What is known of its run.
    pub facts: RunFacts,
    /// Ascending by CPU; those that reported nothing are not among them.
    pub cpus: Vec<RecordedCpu>,
    /// What of its run may be missing in it.
    pub limits: Limits,
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

/// What a run did not see, or what was lost of it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Gaps below this length were not looked for, nanoseconds.
    pub threshold_ns: u64,
    /// Records that may have been gaps.
    pub lost_gaps: u64,
    /// Everything else that was lost: gaps keep their length, and may lack those who took them.
    pub lost_witnesses: u64,
    /// Whether it ended in order, and its clock could be trusted until then.
    pub complete: bool,
}

impl Recorded {
    /// How long each of its CPUs was looked at, at least; nanoseconds.
    pub fn shortest_ns(&self) -> u64 {
        let spans = self.cpus.iter().map(|cpu| cpu.record.span_ns());
        spans.min().unwrap_or(0)
    }
}
