//! What a recording could not see.

use serde::{Serialize, Serializer};

use crate::{Policy, Share};

/// Something that a recording could not see and that an answer depends on. Only a [`Coverage`](super::Coverage) makes one.
#[derive(Debug, Clone, PartialEq)]
pub struct BlindSpot(Hidden);

/// For programs, and for people.
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

    /// What is hidden.
    pub fn hidden(&self) -> &Hidden {
        &self.0
    }

    /// What kind of thing is not known because of it.
    pub fn hides(&self) -> Hides {
        match self.0 {
            Hidden::Unplaced { .. }
            | Hidden::Doubt { .. }
            | Hidden::BeyondSteal { ns: Some(_) } => Hides::StatedTime,
            Hidden::Lost { .. } => Hides::StatedCount,
            Hidden::LostNames { .. }
            | Hidden::Interrupts
            | Hidden::Unnamed
            | Hidden::KvmUnbounded { .. }
            | Hidden::ClockBound { .. }
            | Hidden::HostNames { .. }
            | Hidden::HostInterrupts
            | Hidden::HostUnsure { .. }
            | Hidden::HostElsewhere { .. } => Hides::Owners,
            _ => Hides::Time,
        }
    }
}

/// What kind of thing a blind spot hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hides {
    /// Time that may have been taken, however much: no figure is kept.
    Time,
    /// Time that may have been taken, no more than is stated: whoever counts it as taken can go on.
    StatedTime,
    /// Gaps or wake-ups of any length, no more than are stated: whoever counts each as above a limit can go on.
    StatedCount,
    /// Who took time that is in a gap: bounds on what each had can still decide.
    Owners,
}

/// What is hidden. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Hidden {
    /// Shorter gaps.
    Threshold {
        /// The threshold of the recording.
        threshold_ns: u64,
    },
    /// Gaps that fell into the writing of another one.
    Writing {
        /// Longer ones are recorded.
        below_ns: u64,
    },
    /// What is taken from an observed thread below its kernel.
    #[serde(rename = "not_felt")]
    BelowObserved,
    /// Tasks that delay this one and not the recorder.
    GoesFirst {
        /// How the recorder was scheduled.
        recorder: Policy,
        /// How the task is.
        task: Policy,
    },
    /// Which tasks delayed the recorder.
    Policy,
    /// Gaps or wake-ups, each of any length.
    Lost {
        /// How many, at most.
        count: u64,
    },
    /// Who took time.
    LostNames {
        /// How many records.
        count: u64,
    },
    /// A share.
    #[serde(rename = "not_witnessed")]
    Unwatched {
        /// Which; `None` is all of them.
        share: Option<Share>,
        /// Why.
        #[serde(flatten)]
        why: WhyUnwatched,
    },
    /// Interrupts that no probe reports.
    Interrupts,
    /// Who had the time that no probe explains.
    Unnamed,
    /// What others had of KVM's time.
    KvmUnbounded {
        /// How much, at most.
        ns: u64,
    },
    /// What came after the last record.
    CutOff {
        /// How long was measured.
        measured_ns: u64,
        /// How long was planned; `None` where that was open.
        planned_ns: Option<u64>,
    },
    /// What came after the workload had failed.
    Failed {
        /// How long was measured.
        measured_ns: u64,
    },
    /// The rest of each period.
    Paused {
        /// How much of each period was measured.
        runtime_ns: u64,
        /// Length of a period.
        period_ns: u64,
    },
    /// The time in which the workload was stopped or held.
    NotMeasured {
        /// How long, on the CPU where that was longest.
        ns: u64,
        /// On which CPUs.
        cpus: Vec<u32>,
    },
    /// When the workload looked at nothing.
    Unplaced {
        /// How long, on all CPUs together.
        ns: u64,
    },
    /// Everything after the clock went back.
    ClockWentBack {
        /// Since the begin of the run.
        at_ns: u64,
    },
    /// Gaps around jumps of the clock.
    ClockJumped {
        /// How often.
        jumps: u64,
        /// How long no gap has a length.
        undated_ns: u64,
    },
    /// On which side of an edge a short activity was.
    ClockBound {
        /// Bound of the error; `None` where there is none.
        ns: Option<u64>,
    },
    /// Everything: gaps are longer than the time that was measured.
    Damaged,
    /// Everything on CPUs that never reported.
    Silent {
        /// Which.
        cpus: Vec<u32>,
    },
    /// Everything on this machine in recordings of others.
    OtherMachine {
        /// Which recordings.
        files: Vec<String>,
    },
    /// Who on the host took time.
    HostNames {
        /// How many records.
        count: u64,
    },
    /// Interrupts of the host that no probe reports.
    HostInterrupts,
    /// Who on the host took what is too short for the clocks.
    HostUnsure {
        /// How much.
        ns: u64,
    },
    /// What took time while the host did not record the vCPU.
    HostElsewhere {
        /// How many gaps.
        gaps: u64,
        /// Their length.
        ns: u64,
    },
    /// All events of a command.
    Untraced {
        /// Why, and what would help.
        why: String,
    },
    /// Threads of a command.
    Unfollowed {
        /// How many; `None` is each of them.
        threads: Option<u64>,
    },
    /// Events of a command that do not say how much is missing.
    Events {
        /// How many.
        count: u64,
    },
    /// For whom threads of a command waited: events were missed, and the kernel does not count waits itself.
    Waits,
    /// Time that a hypervisor takes in excess of steal time: for exits, its interrupts and memory.
    BeyondSteal {
        /// At most so much, at the rate that was measured before the command; `None` if none was measured.
        ns: Option<u64>,
    },
    /// A part of the threads' time.
    Doubt {
        /// How much, at most.
        ns: u64,
        /// Events that were missed.
        events: u64,
    },
}

/// Why a share was not watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum WhyUnwatched {
    /// The run had no probes.
    NoProbes,
    /// A hypervisor is below this machine, which cannot be told from the hardware.
    LayerBelow,
    /// Only the host of this machine has it.
    OnHost,
    /// The hypervisor below this machine has no steal clock.
    NoStealClock,
    /// Its probe was missing, or could not show it.
    Probe {
        /// What the probe says of itself; empty where it says nothing.
        limit: String,
    },
}
