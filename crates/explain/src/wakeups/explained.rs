//! A wake-up as it was cut beside the recording of its host: what each side had of it.

use std::ops::Range;

use vmnoise_events::{Share, SourceId};

use super::wakeup::Wakeup;
use crate::below::{BelowExit, Met};
use crate::names::Names;
use crate::part::Part;
use crate::phase::Phase;

/// One wake-up, and both sides of what happened in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExplainedWakeup<'a> {
    pub(crate) wakeup: &'a Wakeup,
    /// In the order of time; together they are all of it.
    pub(crate) stretches: &'a [CutStretch],
    /// The exits of its vCPU that overlap it, in the order of time.
    pub(crate) exits: &'a [BelowExit],
    /// Whether the host recorded all of it, on a known clock.
    pub(crate) witnessed: bool,
    /// Whether its vCPU was in the guest wherever no exit is told.
    pub(crate) tells_exits: bool,
    /// The share of what is left over.
    pub(crate) residual: Share,
    pub(crate) names: &'a Names,
    /// What a sleep of the vCPU past the expiry is called.
    pub(crate) overslept: Option<SourceId>,
}

/// One stretch of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CutStretch {
    /// `None` where a step was not seen that would tell.
    pub(crate) phase: Option<Phase>,
    /// The phase that ends where it ends.
    pub(crate) until: Option<Phase>,
    pub(crate) dur_ns: u64,
    /// Whether it is long enough for the clock of its host.
    pub(crate) is_sure: bool,
    /// What the guest's own kernel had, net of what its host took meanwhile.
    pub(crate) own: Vec<Part>,
    pub(crate) steal_ns: u64,
    pub(crate) residual_ns: u64,
    /// What of the residual either side may have had: the clocks are not sure enough.
    pub(crate) unsure_ns: u64,
    /// Which exits overlap it, and what each had of it.
    pub(crate) exits: Range<usize>,
    pub(crate) met: Vec<Met>,
}

impl CutStretch {
    /// What its exits had of it.
    pub(crate) fn met_ns(&self) -> u64 {
        let parts = self.met.iter().flat_map(|met| &met.parts);
        parts.map(|part| part.ns).sum()
    }
}
