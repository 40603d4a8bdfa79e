//! Blind spots: facts that a recording could not see.

use serde::{Serialize, Serializer};

use crate::{Policy, Share};

/// A fact that a recording could not see and that an answer depends on. Only a
/// [`Coverage`](super::Coverage) makes blind spots.
#[derive(Debug, Clone, PartialEq)]
pub struct BlindSpot(Hidden);

/// JSON has the fields for programs and a sentence for people.
impl Serialize for BlindSpot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct InWords<'a> {
            #[serde(flatten)]
            hidden: &'a Hidden,
            text: String,
        }
        let (hidden, text) = (self.hidden(), self.to_string());
        InWords { hidden, text }.serialize(serializer)
    }
}

impl BlindSpot {
    pub(super) fn new(hidden: Hidden) -> BlindSpot {
        BlindSpot(hidden)
    }

    /// Returns the hidden facts.
    pub fn hidden(&self) -> &Hidden {
        &self.0
    }

    /// Returns the kind of unknown that this blind spot causes.
    pub fn hides(&self) -> HiddenKind {
        match self.0 {
            Hidden::Unplaced { .. }
            | Hidden::Doubt { .. }
            | Hidden::BeyondSteal { ns: Some(_) } => HiddenKind::StatedTime,
            Hidden::Lost { .. } => HiddenKind::StatedCount,
            Hidden::LostNames { .. }
            | Hidden::Interrupts
            | Hidden::Unnamed
            | Hidden::KvmUnbounded { .. }
            | Hidden::ClockBound { .. }
            | Hidden::HostNames { .. }
            | Hidden::HostInterrupts
            | Hidden::HostUnsure { .. }
            | Hidden::HostElsewhere { .. } => HiddenKind::Owners,
            _ => HiddenKind::Time,
        }
    }
}

/// Kind of unknown that a blind spot causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenKind {
    /// An unlimited amount of lost time: no figure holds.
    Time,
    /// A known maximum of lost time. A figure that counts all this time as taken is still true.
    StatedTime,
    /// A stated maximum number of gaps or wake-ups of any length. A figure that counts each of them
    /// as above the limit still holds.
    StatedCount,
    /// The owners of time that is in known gaps. Bounds on each owner's time can still decide.
    Owners,
}

/// Hidden facts. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Hidden {
    /// Gaps below the threshold.
    Threshold {
        /// Threshold of the recording.
        threshold_ns: u64,
    },
    /// Gaps that began while another gap was being recorded.
    Writing {
        /// Length from which such gaps are recorded.
        below_ns: u64,
    },
    /// Time taken from an observed thread below its kernel.
    #[serde(rename = "not_felt")]
    BelowObserved,
    /// Tasks that delay the task in question but not the recorder.
    GoesFirst {
        /// Scheduling policy of the recorder.
        recorder: Policy,
        /// Scheduling policy of the task.
        task: Policy,
    },
    /// Tasks that delay the recorder, because its policy is unknown.
    Policy,
    /// Lost gaps or wake-ups, each of any length.
    Lost {
        /// Maximum number.
        count: u64,
    },
    /// Owners of time, in lost records.
    LostNames {
        /// Number of records.
        count: u64,
    },
    /// A share that was not watched.
    #[serde(rename = "not_witnessed")]
    Unwatched {
        /// The share that was not watched; `None` for all shares.
        share: Option<Share>,
        /// Reason why the share was not watched.
        #[serde(flatten)]
        why: WhyUnwatched,
    },
    /// Interrupts that no probe reports.
    Interrupts,
    /// Owner of the time that no probe explains.
    Unnamed,
    /// Time that others had within KVM's time.
    KvmUnbounded {
        /// Maximum of this time.
        ns: u64,
    },
    /// Everything after the last record of a run that was cut off.
    CutOff {
        /// Measured time.
        measured_ns: u64,
        /// Planned duration; `None` if the run had no time limit.
        planned_ns: Option<u64>,
    },
    /// Everything after the workload failed.
    Failed {
        /// Measured time.
        measured_ns: u64,
    },
    /// The unmeasured part of each period.
    Paused {
        /// Measured part of each period.
        runtime_ns: u64,
        /// Length of a period.
        period_ns: u64,
    },
    /// Time in which the workload was stopped or held.
    NotMeasured {
        /// Duration on the CPU with the longest one.
        ns: u64,
        /// CPUs with such time.
        cpus: Vec<u32>,
    },
    /// Time in which the workload observed nothing, at unknown times.
    Unplaced {
        /// Sum over all CPUs.
        ns: u64,
    },
    /// Everything after the clock went back.
    ClockWentBack {
        /// Time since the start of the run.
        at_ns: u64,
    },
    /// Gaps around jumps of the clock.
    ClockJumped {
        /// Number of jumps.
        jumps: u64,
        /// Time in which gaps have no length.
        undated_ns: u64,
    },
    /// Side of a gap's edge on which a short activity was, because of the clock error.
    ClockBound {
        /// Bound of the clock error; `None` if there is none.
        ns: Option<u64>,
    },
    /// All figures: the gaps add up to more than the measured time.
    Damaged,
    /// Everything on CPUs that never reported.
    Silent {
        /// The CPUs.
        cpus: Vec<u32>,
    },
    /// All facts about this machine in recordings of other machines.
    OtherMachine {
        /// The other recordings.
        files: Vec<String>,
    },
    /// Owners of time on the host, in lost records.
    HostNames {
        /// Number of records.
        count: u64,
    },
    /// Interrupts of the host that no probe reports.
    HostInterrupts,
    /// Owners on the host of gaps that are too short for the clock error.
    HostUnsure {
        /// Total length of the gaps, in nanoseconds.
        ns: u64,
    },
    /// Causes of gaps while the host did not record the vCPU.
    HostElsewhere {
        /// Number of gaps.
        gaps: u64,
        /// Total length of the gaps, in nanoseconds.
        ns: u64,
    },
    /// All events of a command.
    Untraced {
        /// Reason, and remedy.
        why: String,
    },
    /// Threads of a command that were not followed.
    Unfollowed {
        /// Number of threads; `None` for all threads.
        threads: Option<u64>,
    },
    /// Time of a command's missed events, whose amount is unknown.
    Events {
        /// Number of events.
        count: u64,
    },
    /// Tasks for which the command's threads waited: events were missed, and the kernel does not
    /// count run delay itself.
    Waits,
    /// Time that a hypervisor takes in excess of steal time: for exits, its interrupts and memory.
    BeyondSteal {
        /// Maximum of this time, at the rate measured before the command; `None` without a
        /// measurement.
        ns: Option<u64>,
    },
    /// Part of the threads' time.
    Doubt {
        /// Maximum of this time.
        ns: u64,
        /// Number of missed events.
        events: u64,
    },
}

/// Reason why a share was not watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum WhyUnwatched {
    /// The run had no probes.
    NoProbes,
    /// A hypervisor is below this machine and cannot be distinguished from the hardware.
    LayerBelow,
    /// Only the host of this machine can see the share.
    OnHost,
    /// The hypervisor below this machine offers no steal clock.
    NoStealClock,
    /// The share's probe was missing, or could not show the share.
    Probe {
        /// Limit that the probe reports; empty if none.
        limit: String,
    },
}
