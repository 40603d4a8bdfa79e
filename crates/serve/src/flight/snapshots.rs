//! The books of all vCPUs as they were, every few seconds: their differences are what a stretch of time was.

use std::collections::{BTreeMap, VecDeque};

use vmnoise_events::{Anchor, Share, ShareMap};
use vmnoise_tracer::{VcpuBooks, VcpuId, VcpuState};

/// From one to the next, in ns.
const APART_NS: u64 = 5_000_000_000;
/// How far back they go.
const KEPT: usize = 61;

/// What one vCPU did since it was found, until an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// The instant, and when it was found: CLOCK_MONOTONIC in ns.
    pub(crate) until_mono_ns: u64,
    pub(crate) first_mono_ns: u64,
    pub(crate) ran_ns: u64,
    pub(crate) lost: ShareMap<u64>,
}

impl Spent {
    /// By these books, which were read after that instant. Of a wait that goes on nothing is known yet: until
    /// its begin, then, so that it is all in the time in which it ends.
    pub(crate) fn of(books: &VcpuBooks, mono_ns: u64) -> Spent {
        let quiet_ns = books.idle_ns + books.throttled_ns + books.unsure_ns;
        let waited_ns = books.spent_ns(VcpuState::Waiting);
        let blocked_ns = books.spent_until_ns(VcpuState::Blocked, mono_ns);
        let halted_ns = books.spent_until_ns(VcpuState::Halted, mono_ns);
        let mut lost = ShareMap::default();
        lost[Share::Preempted] = waited_ns.saturating_sub(quiet_ns);
        lost[Share::Throttled] = books.throttled_ns;
        lost[Share::Blocked] = blocked_ns;
        lost[Share::Halted] = halted_ns;
        Spent {
            until_mono_ns: books.final_until_ns(mono_ns),
            first_mono_ns: books.first_mono_ns,
            ran_ns: books.spent_until_ns(VcpuState::Running, mono_ns),
            lost,
        }
    }

    /// What came since then.
    pub(crate) fn since(&self, earlier: &Spent) -> Spent {
        let mut lost = self.lost;
        for (share, before_ns) in earlier.lost.iter() {
            lost[share] = lost[share].saturating_sub(before_ns);
        }
        Spent {
            until_mono_ns: self.until_mono_ns,
            first_mono_ns: earlier.until_mono_ns,
            ran_ns: self.ran_ns.saturating_sub(earlier.ran_ns),
            lost,
        }
    }

    /// What is neither its running nor known to be lost: the VMM's sleeps, what idled, what nobody saw.
    pub(crate) fn unseen_ns(&self) -> u64 {
        let span_ns = self.until_mono_ns.saturating_sub(self.first_mono_ns);
        span_ns.saturating_sub(self.ran_ns + self.lost.total())
    }
}

/// All vCPUs at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) anchor: Anchor,
    /// Events that were missed by then.
    pub(crate) missed: u64,
    /// Those that have ended since the one before are in it too.
    pub(crate) vcpus: BTreeMap<VcpuId, Spent>,
}

/// The last ones, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(VecDeque<Snapshot>);

impl Snapshots {
    /// Whether it is time for the next one.
    pub(crate) fn wants(&self, now_mono_ns: u64) -> bool {
        let next_ns = self.0.back().map(|last| last.anchor.mono_ns + APART_NS);
        next_ns.is_none_or(|next_ns| now_mono_ns >= next_ns)
    }

    pub(crate) fn push(&mut self, snapshot: Snapshot) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(snapshot);
    }

    /// The last one that is no younger than what is asked for, of those that are no older than what is whole;
    /// CLOCK_MONOTONIC in ns.
    pub(crate) fn before(&self, asked_mono_ns: u64, whole_mono_ns: u64) -> Option<&Snapshot> {
        let at = |snapshot: &&Snapshot| snapshot.anchor.mono_ns;
        let mut whole = self.0.iter().filter(|it| at(it) >= whole_mono_ns);
        let first = whole.clone().next();
        whole.rfind(|it| at(it) <= asked_mono_ns).or(first)
    }

    /// Those after this one, the oldest first.
    pub(crate) fn after(&self, first: &Snapshot) -> impl Iterator<Item = &Snapshot> {
        let first_ns = first.anchor.mono_ns;
        let all = self.0.iter();
        all.filter(move |snapshot| snapshot.anchor.mono_ns > first_ns)
    }
}
