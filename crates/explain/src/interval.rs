//! A gap or a wake-up with the names of who took it, and how the documents spell it.

use serde::{Serialize, Serializer};
use vmnoise_events::Share;

use crate::named::NamedPart;
use crate::phase::Phase;

/// A gap or a wake-up: a stretch of a CPU's time that somebody took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInterval {
    /// The CPU that felt the gap, or that of the task.
    pub cpu: u32,
    /// Begin, in nanoseconds since the first workload's first reading.
    pub at_ns: u64,
    /// Begin of a gap, or the planned expiry: CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length of a gap, or how late the task was in user space, in nanoseconds.
    pub dur_ns: u64,
    /// Where it went, the largest of each phase first; adds up to the length.
    pub parts: Vec<NamedPart>,
    /// What else is known of it.
    pub detail: NamedDetail,
}

/// What a gap has and a wake-up has not, and the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedDetail {
    /// Of a gap.
    Gap {
        /// Begin, as the workload stamped it: cycles of the host's TSC.
        start_tsc: u64,
        /// End on the same clock.
        end_tsc: u64,
        /// Interferences in it that no activity shows; if not 0, the parts booked to the
        /// kernel's own work are lower bounds. `None` where no counter could tell.
        lost_activities: Option<u64>,
    },
    /// Of a wake-up.
    Wakeup {
        /// Until the timer's interrupt.
        irq_ns: Option<u64>,
        /// Until the task was switched in.
        thread_ns: Option<u64>,
    },
}

impl NamedInterval {
    /// How many interferences no activity shows, as far as a counter could tell.
    pub fn lost_activities(&self) -> u64 {
        match self.detail {
            NamedDetail::Gap {
                lost_activities, ..
            } => lost_activities.unwrap_or(0),
            NamedDetail::Wakeup { .. } => 0,
        }
    }

    /// From the planned expiry until the timer's interrupt; `None` where that is not known.
    pub fn irq_ns(&self) -> Option<u64> {
        match self.detail {
            NamedDetail::Wakeup { irq_ns, .. } => irq_ns,
            NamedDetail::Gap { .. } => None,
        }
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
            NamedDetail::Gap {
                start_tsc,
                end_tsc,
                lost_activities,
            } => Gap {
                cpu,
                at_ns,
                start_mono_ns,
                start_tsc,
                end_tsc,
                dur_ns,
                lost_activities,
                parts,
            }
            .serialize(to),
            NamedDetail::Wakeup { irq_ns, thread_ns } => Wakeup {
                cpu,
                at_ns,
                expiry_mono_ns: start_mono_ns,
                latency_ns: dur_ns,
                irq_ns,
                thread_ns,
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
