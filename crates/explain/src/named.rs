//! Intervals, parts and culprits with their names.

use serde::{Serialize, Serializer};
use vmnoise_events::{Name, Share};

use crate::interval::Detail;
use crate::phase::Phase;

/// A [`crate::Part`] with its source's name. The serialized form lacks the phase and the host's
/// CPU. Documents that contain these values add them themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedPart {
    /// Phase of the wake-up; see [`crate::Part::phase`].
    #[serde(skip)]
    pub phase: Option<Phase>,
    /// Share of the part.
    pub share: Share,
    /// Name of the source; `None` for steal and the residual, which have no source.
    pub source: Option<Name>,
    /// CPU of the host; see [`crate::Part::host_cpu`].
    #[serde(skip)]
    pub host_cpu: Option<u32>,
    /// Net time in nanoseconds.
    pub ns: u64,
    /// Number of activities in the sum; 0 for steal and the residual.
    pub count: u32,
}

/// Time that one source took from all gaps of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSummary {
    /// Share to which the time belongs.
    pub share: Share,
    /// Name of the source.
    pub name: Name,
    /// Number of activities.
    pub count: u64,
    /// Net time in nanoseconds.
    pub total_ns: u64,
    /// Longest net time that one activity took from a gap, in nanoseconds.
    pub max_ns: u64,
}

/// A [`crate::Interval`] with the names of its culprits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInterval {
    /// CPU that observed the gap, or CPU of the task.
    pub cpu: u32,
    /// Start, in nanoseconds since [`crate::Summary::origin_mono_ns`].
    pub at_ns: u64,
    /// Start of the interval; see [`crate::Interval::start_mono_ns`].
    pub start_mono_ns: u64,
    /// Length of the interval; see [`crate::Interval::dur_ns`].
    pub dur_ns: u64,
    /// Parts, the largest of each phase first. The parts add up to the length of the interval.
    pub parts: Vec<NamedPart>,
    /// Facts that only gaps have, or facts that only wake-ups have.
    pub detail: Detail,
}

impl NamedInterval {
    /// Returns the number of interferences that no activity shows; 0 without a counter. If the
    /// number is not 0, the parts of the kernel's own work are lower bounds.
    pub fn lost_activities(&self) -> u64 {
        let gap = self.detail.gap();
        gap.and_then(|gap| gap.lost_activities).unwrap_or(0)
    }

    /// Returns the time from the planned expiry to the timer's interrupt, in nanoseconds; `None` if
    /// unknown.
    pub fn irq_ns(&self) -> Option<u64> {
        self.detail.wakeup().and_then(|wakeup| wakeup.irq_ns)
    }
}

impl Serialize for NamedInterval {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let NamedInterval {
            cpu,
            at_ns,
            start_mono_ns,
            dur_ns,
            ref parts,
            detail,
        } = *self;
        match detail {
            Detail::Gap(gap) => Gap {
                cpu,
                at_ns,
                start_mono_ns,
                start_tsc: gap.start_tsc,
                end_tsc: gap.end_tsc,
                dur_ns,
                lost_activities: gap.lost_activities,
                parts,
            }
            .serialize(to),
            Detail::Wakeup(wakeup) => Wakeup {
                cpu,
                at_ns,
                expiry_mono_ns: start_mono_ns,
                latency_ns: dur_ns,
                irq_ns: wakeup.irq_ns,
                thread_ns: wakeup.thread_ns,
                parts: parts.iter().map(PhasePart::new).collect(),
            }
            .serialize(to),
        }
    }
}

/// JSON document of a gap.
#[derive(Serialize)]
struct Gap<'a> {
    cpu: u32,
    at_ns: u64,
    start_mono_ns: u64,
    start_tsc: u64,
    end_tsc: u64,
    dur_ns: u64,
    lost_activities: Option<u64>,
    parts: &'a [NamedPart],
}

/// JSON document of a wake-up.
#[derive(Serialize)]
struct Wakeup<'a> {
    cpu: u32,
    at_ns: u64,
    expiry_mono_ns: u64,
    latency_ns: u64,
    irq_ns: Option<u64>,
    thread_ns: Option<u64>,
    parts: Vec<PhasePart<'a>>,
}

/// JSON document of a part of a wake-up.
#[derive(Serialize)]
struct PhasePart<'a> {
    phase: Option<Phase>,
    share: Share,
    source: Option<&'a str>,
    ns: u64,
}

impl PhasePart<'_> {
    fn new(part: &NamedPart) -> PhasePart<'_> {
        PhasePart {
            phase: part.phase,
            share: part.share,
            source: part.source.as_deref(),
            ns: part.ns,
        }
    }
}
