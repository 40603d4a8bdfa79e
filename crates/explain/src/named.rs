//! Intervals, their parts, and those who took them, with their names.

use serde::{Serialize, Serializer};
use vmnoise_events::{Name, Share};

use crate::interval::Detail;
use crate::phase::Phase;

/// A [`crate::Part`] with its source's name. As it is serialized, it has no phase and no CPU of a
/// host: the documents that have these say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedPart {
    /// As [`crate::Part::phase`].
    #[serde(skip)]
    pub phase: Option<Phase>,
    /// Under which share.
    pub share: Share,
    /// Who; `None` where nobody is named (steal, residual).
    pub source: Option<Name>,
    /// As [`crate::Part::host_cpu`].
    #[serde(skip)]
    pub host_cpu: Option<u32>,
    /// Net time in nanoseconds.
    pub ns: u64,
    /// How many activities it adds up; 0 for steal and the residual.
    pub count: u32,
}

/// What one source took of all gaps of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSummary {
    /// Under which share.
    pub share: Share,
    /// Who.
    pub name: Name,
    /// How often.
    pub count: u64,
    /// Net time in nanoseconds.
    pub total_ns: u64,
    /// The most it took at once, net, in nanoseconds.
    pub max_ns: u64,
}

/// A [`crate::Interval`] with the names of who took it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInterval {
    /// The CPU that observed the gap, or that of the task.
    pub cpu: u32,
    /// Begin, in nanoseconds since [`crate::Summary::origin_mono_ns`].
    pub at_ns: u64,
    /// As [`crate::Interval::start_mono_ns`].
    pub start_mono_ns: u64,
    /// As [`crate::Interval::dur_ns`].
    pub dur_ns: u64,
    /// Where it went, the largest of each phase first; adds up to the length.
    pub parts: Vec<NamedPart>,
    /// What else is known of it.
    pub detail: Detail,
}

impl NamedInterval {
    /// How many interferences no activity shows, as far as a counter could say: if not 0, the
    /// parts booked to the kernel's own work are lower bounds.
    pub fn lost_activities(&self) -> u64 {
        let gap = self.detail.gap();
        gap.and_then(|gap| gap.lost_activities).unwrap_or(0)
    }

    /// From the planned expiry until the timer's interrupt; `None` where that is not known.
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

/// A gap in a document.
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

/// A wake-up in a document.
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

/// A part of a wake-up.
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
