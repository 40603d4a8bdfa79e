//! What a host reported about one CPU, as results show it.

use std::ops::AddAssign;

use serde::Serialize;
use vmnoise_events::{FeedDetail, HostFrame, ShareMap, Witnesses};

use super::hardware::HardwareBound;
use super::named::{ReportedCulprit, ReportedReason};
use crate::clockmap::ClockMap;
use crate::exits::{self, exit_shares};

/// What came by a host's feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FeedSummary {
    /// The detail that the host reports; `None` if no frame said.
    pub detail: Option<FeedDetail>,
    /// Bytes read.
    pub bytes: u64,
    /// Whole and undamaged frames.
    pub frames: u64,
    /// Damaged frames, and stretches that were no frame.
    pub garbled: u64,
    /// Frames that cannot be true: they contradict themselves, the clock, or those before.
    pub refused: u64,
    /// How often the host hung up.
    pub hang_ups: u64,
}

/// What a host took of one CPU, by its own word, between frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ReportedHost {
    /// How long the frames cover, in nanoseconds.
    pub covered_ns: u64,
    /// Exits of the vCPU meanwhile.
    pub exits: u64,
    /// How many were handled in the host kernel; `None` where the host cannot see them.
    pub light: Option<u64>,
    /// How many went to the VMM.
    pub heavy: u64,
    /// Where their time went.
    #[serde(serialize_with = "exits::as_json")]
    pub shares_ns: ShareMap<Option<u64>>,
    /// VIRT: those of the shares that are the virtualization's, in nanoseconds.
    pub virt_ns: u64,
    /// The hardware had this at least, in gaps that are certain by now.
    pub hw_at_least_ns: u64,
    /// The hardware had no more than this; `None` where no gap is certain yet, nobody observes
    /// gaps, or they were too many to keep.
    pub hw_at_most_ns: Option<u64>,
    /// Records that the host lost: names may be missing, amounts never.
    pub lost: u64,
}

impl ReportedHost {
    /// HW_NOISE: what the hardware had at least; `None` where that is nothing, and it may have
    /// been more.
    pub(crate) fn hw_noise_ns(&self) -> Option<u64> {
        let is_known = self.hw_at_least_ns > 0 || self.hw_at_most_ns == Some(0);
        is_known.then_some(self.hw_at_least_ns)
    }
}

/// As `ReportedHost`, over a run, with names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuFromFeed {
    /// What it took.
    #[serde(flatten)]
    pub reported: ReportedHost,
    /// Why the vCPU left its guest, largest time first; `None` where the host does not tell.
    pub reasons: Option<Vec<ReportedReason>>,
    /// Who took the time, largest first; `None` where the host does not tell.
    pub culprits: Option<Vec<ReportedCulprit>>,
}

/// Sums over what lies between frames.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    /// How many times two frames were compared.
    steps: u64,
    covered_tsc: u64,
    exits: u64,
    heavy: u64,
    split: ShareMap<u64>,
    lost: u64,
    /// Some of it without what the host's kernel handled.
    lacks_kvm: bool,
    pub(super) hardware: HardwareBound,
}

impl Sum {
    /// What `after` counts beyond `before`, of the same count; without one, all.
    pub(super) fn between(before: Option<&HostFrame>, after: &HostFrame) -> Sum {
        let since = |of: fn(&HostFrame) -> u64| of(after).saturating_sub(before.map_or(0, of));
        let part = |share| {
            let before_ns = before.map_or(0, |before| before.split[share]);
            after.split[share].saturating_sub(before_ns)
        };
        let begin_tsc = before.map_or(after.from_tsc, |before| before.until_tsc);
        Sum {
            steps: 1,
            covered_tsc: after.until_tsc.saturating_sub(begin_tsc),
            exits: since(|frame| frame.exits),
            heavy: since(|frame| frame.heavy),
            split: ShareMap::from_fn(part),
            lost: since(|frame| frame.lost),
            lacks_kvm: !after.sees_kvm,
            hardware: HardwareBound::default(),
        }
    }

    pub(super) fn exits(&self) -> u64 {
        self.exits
    }

    pub(super) fn reported(&self, clock: &ClockMap) -> Option<ReportedHost> {
        let virt = self.split.iter().filter(|(share, _)| share.is_virt());
        (self.steps > 0).then(|| ReportedHost {
            covered_ns: clock.whole_ns(self.covered_tsc),
            exits: self.exits,
            light: (!self.lacks_kvm).then(|| self.exits.saturating_sub(self.heavy)),
            heavy: self.heavy,
            // A host that lacks a witness says of itself that it does not know what is KVM's.
            shares_ns: exit_shares(&self.split, !self.lacks_kvm, &Witnesses::OF_EXITS),
            virt_ns: virt.fold(0, |sum, (_, ns)| ns.saturating_add(sum)),
            hw_at_least_ns: self.hardware.at_least_ns,
            hw_at_most_ns: self.hardware.at_most_ns(),
            lost: self.lost,
        })
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, more: Sum) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.steps, more.steps);
        add(&mut self.covered_tsc, more.covered_tsc);
        add(&mut self.exits, more.exits);
        add(&mut self.heavy, more.heavy);
        add(&mut self.lost, more.lost);
        self.lacks_kvm = self.lacks_kvm || more.lacks_kvm;
        self.hardware += more.hardware;
        self.split += more.split;
    }
}
