//! An interval as it was cut: what each side had of it.

use std::ops::Range;

use vmnoise_events::{Share, SourceId};

use crate::host_exits::{HostExit, Overlap};
use crate::interval::Interval;
use crate::names::Names;
use crate::part::Part;
use crate::phase::Phase;

/// One gap or wake-up, and both sides of what happened in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Explained<'a> {
    pub(crate) interval: &'a Interval,
    /// In the order of time; together they are all of it. None without a host's recording.
    pub(crate) stretches: &'a [CutStretch],
    /// The exits of its vCPU that overlap it, in the order of time.
    pub(crate) exits: &'a [HostExit],
    /// Whether its vCPU was in the guest wherever no exit is reported.
    pub(crate) reports_exits: bool,
    /// The share of what is left over.
    pub(crate) residual: Share,
    pub(crate) names: &'a Names,
    /// What a sleep of the vCPU past the expiry of a wake-up is called.
    pub(crate) overslept: Option<SourceId>,
}

/// A gap, or one stretch of a wake-up.
#[derive(Debug, Clone, Default)]
pub(crate) struct CutStretch {
    /// `None` of a gap, and where a step was not seen that would tell.
    pub(crate) phase: Option<Phase>,
    /// The phase that ends where it ends.
    pub(crate) until: Option<Phase>,
    pub(crate) dur_ns: u64,
    /// Whether it is long enough for the clock of its host.
    pub(crate) is_sure: bool,
    /// What the guest's own kernel had, activity by activity, net of what its host took
    /// meanwhile.
    pub(crate) own: Vec<Part>,
    pub(crate) steal_ns: u64,
    /// What no witness explains outside of exits.
    pub(crate) residual_ns: u64,
    /// Which exits overlap it, and what each had of it.
    pub(crate) exits: Range<usize>,
    pub(crate) overlaps: Vec<Overlap>,
}

impl CutStretch {
    /// What its exits had of it.
    pub(crate) fn met_ns(&self) -> u64 {
        let parts = self.overlaps.iter().flat_map(|overlap| &overlap.parts);
        parts.map(|part| part.ns).sum()
    }

    /// What its exits had of it in too short a time for the clocks.
    pub(crate) fn unsure_ns(&self) -> u64 {
        self.overlaps.iter().map(|overlap| overlap.unsure_ns).sum()
    }
}
