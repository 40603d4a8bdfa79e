//! Result of dividing one interval between guest and host.

use std::ops::Range;

use vmnoise_events::{Share, SourceId};

use crate::host_exits::{HostExit, Overlap};
use crate::interval::Interval;
use crate::names::Names;
use crate::part::Part;
use crate::phase::Phase;

/// One gap or wake-up, with the events of guest and host in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Explained<'a> {
    pub(crate) interval: &'a Interval,
    /// Segments in time order; together they cover the whole interval. Empty without a host's
    /// recording.
    pub(crate) stretches: &'a [CutStretch],
    /// Exits of the CPU's vCPU that overlap the interval, in time order.
    pub(crate) exits: &'a [HostExit],
    /// Whether every exit is reported, so that the vCPU was in its guest at all other times.
    pub(crate) reports_exits: bool,
    /// Share to which the residual belongs.
    pub(crate) residual: Share,
    pub(crate) names: &'a Names,
    /// Name of the time in which the vCPU still slept after the expiry of a wake-up.
    pub(crate) overslept: Option<SourceId>,
}

/// A gap, or one segment of a wake-up.
#[derive(Debug, Clone, Default)]
pub(crate) struct CutStretch {
    /// Phase of the segment; `None` for a gap, or if an event that delimits the phase is missing.
    pub(crate) phase: Option<Phase>,
    /// Phase that ends at the end of the segment.
    pub(crate) until: Option<Phase>,
    pub(crate) dur_ns: u64,
    /// Whether the segment is longer than the clock error of its host.
    pub(crate) is_sure: bool,
    /// Parts of the guest's own kernel, one for each activity, without the time that the host took
    /// during them.
    pub(crate) own: Vec<Part>,
    pub(crate) steal_ns: u64,
    /// Time outside of exits that no probe explains, in nanoseconds.
    pub(crate) residual_ns: u64,
    /// Indices of the exits that overlap the segment.
    pub(crate) exits: Range<usize>,
    /// Parts of each of these exits in the segment.
    pub(crate) overlaps: Vec<Overlap>,
}

impl CutStretch {
    /// Returns the time in this segment that was spent in exits, in nanoseconds.
    pub(crate) fn met_ns(&self) -> u64 {
        let parts = self.overlaps.iter().flat_map(|overlap| &overlap.parts);
        parts.map(|part| part.ns).sum()
    }

    /// Returns the time of exits whose overlap is too short for the clock error, in nanoseconds.
    pub(crate) fn unsure_ns(&self) -> u64 {
        self.overlaps.iter().map(|overlap| overlap.unsure_ns).sum()
    }
}
