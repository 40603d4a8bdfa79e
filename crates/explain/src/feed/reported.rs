//! Sums of a host's reports about one CPU, as results show them.

use std::ops::AddAssign;

use serde::Serialize;
use vmnoise_events::{FeedDetail, HostFrame, ShareMap, Witnesses};

use super::hardware::HardwareBound;
use super::named::{ReportedCulprit, ReportedReason};
use crate::clockmap::ClockMap;
use crate::exits::{self, exit_shares};

/// Summary of a host's feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FeedSummary {
    /// Level of detail that the host reports; `None` without a frame.
    pub detail: Option<FeedDetail>,
    /// Number of bytes that the guest read from the feed.
    pub bytes: u64,
    /// Number of complete and undamaged frames.
    pub frames: u64,
    /// Number of damaged frames, and of byte runs that are no frame.
    pub garbled: u64,
    /// Number of impossible frames, which contradict themselves, the clock, or earlier frames.
    pub refused: u64,
    /// Number of times that the host hung up.
    pub hang_ups: u64,
}

/// Time that a host took from one CPU between frames, as the host reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ReportedHost {
    /// Time that the frames cover, in nanoseconds.
    pub covered_ns: u64,
    /// Number of exits of the vCPU in this time.
    pub exits: u64,
    /// Number of exits that the host's kernel handled; `None` if the host cannot see these exits.
    pub light: Option<u64>,
    /// Number of exits that went to the VMM.
    pub heavy: u64,
    /// Time of the exits by share, in nanoseconds.
    #[serde(serialize_with = "exits::as_json")]
    pub shares_ns: ShareMap<Option<u64>>,
    /// VIRT: the sum of the shares that belong to virtualization, in nanoseconds.
    pub virt_ns: u64,
    /// Lower bound of the hardware's time in the gaps that are final, in nanoseconds.
    pub hw_at_least_ns: u64,
    /// Upper bound of the hardware's time, in nanoseconds. `None` if no gap is final yet, if the
    /// workload observes no gaps, or if there were too many gaps to keep.
    pub hw_at_most_ns: Option<u64>,
    /// Number of records that the host lost. Names may therefore be missing, but amounts are
    /// complete.
    pub lost: u64,
}

impl ReportedHost {
    /// Returns HW_NOISE: the lower bound of the hardware's time, in nanoseconds. Returns `None` if
    /// the lower bound is 0 but the upper bound is not.
    pub(crate) fn hw_noise_ns(&self) -> Option<u64> {
        let is_known = self.hw_at_least_ns > 0 || self.hw_at_most_ns == Some(0);
        is_known.then_some(self.hw_at_least_ns)
    }
}

/// Reports about one CPU over a run, with names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuFromFeed {
    /// Time that the host took.
    #[serde(flatten)]
    pub reported: ReportedHost,
    /// Reasons of exits, the largest time first; `None` if the host does not report reasons.
    pub reasons: Option<Vec<ReportedReason>>,
    /// Culprits, the largest time first; `None` if the host does not report culprits.
    pub culprits: Option<Vec<ReportedCulprit>>,
}

/// Sums over the time between frames.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    /// Number of compared pairs of frames.
    steps: u64,
    covered_tsc: u64,
    exits: u64,
    heavy: u64,
    split: ShareMap<u64>,
    lost: u64,
    /// Whether a frame lacks the exits that the host's kernel handled.
    lacks_kvm: bool,
    pub(super) hardware: HardwareBound,
}

impl Sum {
    /// Returns the difference between two frames of the same count. Without `before`, returns the
    /// whole count of `after`.
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
            // A host that lacks a probe reports that KVM's part is unknown.
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
