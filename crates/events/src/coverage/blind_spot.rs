//! Blind spots: facts that a recording could not see.

use serde::{Serialize, Serializer};

use crate::{Policy, Share};

/// A fact that a recording could not see, although an answer depends on this fact. Only a
/// [`Coverage`](super::Coverage) makes blind spots.
#[derive(Debug, Clone, PartialEq)]
pub struct BlindSpot(Hidden);

/// The JSON object has the fields of [`Hidden`] for programs, and one sentence for people.
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

    /// Returns whether the data themselves prove nothing, because they are damaged or of another
    /// machine. Then even a limit that is broken in the data may be kept.
    pub fn makes_data_unusable(&self) -> bool {
        matches!(self.0, Hidden::OtherMachine { .. } | Hidden::Damaged)
    }

    /// Returns which kind of values this blind spot makes unknown.
    pub fn hides(&self) -> HiddenKind {
        match self.0 {
            Hidden::Unplaced { .. }
            | Hidden::Doubt { .. }
            | Hidden::BeyondSteal { ns: Some(_) } => HiddenKind::StatedTime,
            Hidden::Firmware => HiddenKind::Excluded,
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

/// Kind of values that a blind spot makes unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenKind {
    /// An unlimited amount of lost time. No figure is valid.
    Time,
    /// An amount of lost time with a known maximum. A figure that counts the maximum as taken is
    /// valid.
    StatedTime,
    /// A number of gaps or wake-ups with a known maximum, each of unknown length. A figure that
    /// counts each of them as longer than the limit is valid.
    StatedCount,
    /// Lost time that each figure excludes by definition. A figure is valid without it.
    Excluded,
    /// The owners of the time in known gaps. Upper and lower bounds on the time of each owner can
    /// still give an answer.
    Owners,
}

/// Facts that a recording could not see. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Hidden {
    /// Gaps below the threshold.
    Threshold {
        /// Threshold of the recording, in nanoseconds.
        threshold_ns: u64,
    },
    /// Gaps that began while another gap was being recorded.
    Writing {
        /// Minimum length of such gaps that are recorded anyway, in nanoseconds.
        below_ns: u64,
    },
    /// Time that a layer below the kernel takes from an observed thread.
    #[serde(rename = "not_felt")]
    BelowObserved,
    /// Tasks that delay the task of the question but not the recorder.
    GoesFirst {
        /// Scheduling policy of the recorder.
        recorder: Policy,
        /// Scheduling policy of the task.
        task: Policy,
    },
    /// Tasks that may delay the task of the question but not the recorder. The recorder's policy is
    /// unknown, because the runs had different policies.
    Policy,
    /// Lost gaps or wake-ups of unknown length.
    Lost {
        /// Maximum number of lost gaps and wake-ups.
        count: u64,
    },
    /// Owners of time that lost records would name.
    LostNames {
        /// Number of lost records.
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
    /// Time of other owners that is counted as KVM's time.
    KvmUnbounded {
        /// Maximum of this time, in nanoseconds.
        ns: u64,
    },
    /// Everything after the last record of a run that was cut off.
    CutOff {
        /// Measured time, in nanoseconds.
        measured_ns: u64,
        /// Planned duration, in nanoseconds; `None` if the run had no time limit.
        planned_ns: Option<u64>,
    },
    /// Everything after the failure of the workload.
    Failed {
        /// Measured time, in nanoseconds.
        measured_ns: u64,
    },
    /// The unmeasured part of each period.
    Paused {
        /// Duration of the measured part of each period, in nanoseconds.
        runtime_ns: u64,
        /// Duration of a period, in nanoseconds.
        period_ns: u64,
    },
    /// Time in which a signal or a debugger had stopped the workload.
    NotMeasured {
        /// Largest such time of one CPU, in nanoseconds.
        ns: u64,
        /// CPUs on which the workload was stopped.
        cpus: Vec<u32>,
    },
    /// Time in which the workload observed nothing. The instants of this time are unknown.
    Unplaced {
        /// Sum of this time over all CPUs, in nanoseconds.
        ns: u64,
    },
    /// Everything after the clock went back.
    ClockWentBack {
        /// Time from the start of the run until the clock went back, in nanoseconds.
        at_ns: u64,
    },
    /// Gaps around jumps of the clock.
    ClockJumped {
        /// Number of jumps.
        jumps: u64,
        /// Time in which gaps have no known length, in nanoseconds.
        undated_ns: u64,
    },
    /// Which of two neighbouring intervals a short activity belongs to, because of the clock error.
    ClockBound {
        /// Upper bound of the clock error, in nanoseconds; `None` if the error is unbounded.
        ns: Option<u64>,
    },
    /// All figures, because the gaps add up to more than the measured time.
    Damaged,
    /// The end of the run, and jumps of a clock. The data set of the recording does not store them.
    NotStored,
    /// Everything on CPUs that never reported.
    Silent {
        /// CPUs that never reported.
        cpus: Vec<u32>,
    },
    /// All facts about this machine that only recordings of other machines could contain.
    OtherMachine {
        /// Names of the other recordings.
        files: Vec<String>,
    },
    /// Owners of time on the host that lost records would name.
    HostNames {
        /// Number of lost records of the host.
        count: u64,
    },
    /// Interrupts of the host that no probe reports.
    HostInterrupts,
    /// Owners on the host of gaps that are shorter than the clock error.
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
    /// All events of the command's threads.
    Untraced {
        /// Reason why the events were not traced, and the remedy.
        why: String,
    },
    /// Events of those threads of a command that were not followed.
    Unfollowed {
        /// Number of threads; `None` for all threads.
        threads: Option<u64>,
    },
    /// Time of missed events of a command. The amount is unknown.
    Events {
        /// Number of missed events.
        count: u64,
    },
    /// Tasks for which the command's threads waited. Events were missed, and the kernel does not
    /// count run delay itself.
    Waits,
    /// Time that a hypervisor takes in addition to steal time: for exits, interrupts and memory.
    BeyondSteal {
        /// Upper bound in nanoseconds, with 95 % confidence, from a measurement before the command
        /// ran; `None` if nothing was measured.
        ns: Option<u64>,
    },
    /// Longest time that a hypervisor took without a break. The preflight was too short to bound it.
    ShortPreflight {
        /// Time for which each CPU was polled for gaps, in nanoseconds.
        polled_ns: u64,
        /// Time that would have been long enough, in nanoseconds.
        needed_ns: u64,
    },
    /// Time that the firmware of a bare-metal machine takes in system management interrupts (SMIs).
    Firmware,
    /// Use of a part of the threads' time, which is uncertain.
    Doubt {
        /// Maximum of this time, in nanoseconds.
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
    /// A hypervisor is below this machine, and its time cannot be distinguished from the
    /// hardware's.
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
