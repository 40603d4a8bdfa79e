//! Snapshots of the counters of all vCPUs, taken every few seconds. The difference of two snapshots
//! is the total of the window between them.

use std::collections::{BTreeMap, VecDeque};

use vmnoise_events::{Anchor, Share, ShareMap};
use vmnoise_tracer::{GateVcpuId, VcpuBooks, VcpuThreadState};

/// Time between two snapshots, in ns.
const APART_NS: u64 = 5_000_000_000;
/// Largest number of snapshots that are kept.
const KEPT: usize = 61;

/// Times of one vCPU from its discovery until an instant, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// End of these times. `first_mono_ns` is their begin, the discovery of the vCPU. Both are
    /// CLOCK_MONOTONIC in ns.
    pub(crate) until_mono_ns: u64,
    pub(crate) first_mono_ns: u64,
    pub(crate) ran_ns: u64,
    pub(crate) lost: ShareMap<u64>,
}

impl Spent {
    /// Returns the times in `books` that are final at `mono_ns` (CLOCK_MONOTONIC in ns). `books`
    /// must have been read after `mono_ns`. During a wait, the returned times end at the begin of
    /// the wait. The whole wait thus belongs to the window in which it ends.
    pub(crate) fn of(books: &VcpuBooks, mono_ns: u64) -> Spent {
        let quiet_ns = books.idle_ns + books.throttled_ns + books.unsure_ns;
        let waited_ns = books.spent_ns(VcpuThreadState::Waiting);
        let blocked_ns = books.spent_until_ns(VcpuThreadState::Blocked, mono_ns);
        let halted_ns = books.spent_until_ns(VcpuThreadState::Halted, mono_ns);
        let mut lost = ShareMap::default();
        lost[Share::Preempted] = waited_ns.saturating_sub(quiet_ns);
        lost[Share::Throttled] = books.throttled_ns;
        lost[Share::Blocked] = blocked_ns;
        lost[Share::Halted] = halted_ns;
        Spent {
            until_mono_ns: books.final_until_ns(mono_ns),
            first_mono_ns: books.first_mono_ns,
            ran_ns: books.spent_until_ns(VcpuThreadState::Running, mono_ns),
            lost,
        }
    }

    /// Returns the increase since `earlier`.
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

    /// Returns the time in ns that is neither running nor known to be lost. It consists of sleep in
    /// the VMM, waits while the CPU idled, and unobserved time.
    pub(crate) fn unseen_ns(&self) -> u64 {
        let span_ns = self.until_mono_ns.saturating_sub(self.first_mono_ns);
        span_ns.saturating_sub(self.ran_ns + self.lost.total())
    }
}

/// Times of all vCPUs at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) anchor: Anchor,
    /// Number of events that the programs have missed so far.
    pub(crate) missed: u64,
    /// Times of each vCPU. vCPUs that ended since the previous snapshot are included.
    pub(crate) vcpus: BTreeMap<GateVcpuId, Spent>,
}

/// The last snapshots, ordered by time.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(VecDeque<Snapshot>);

impl Snapshots {
    /// Returns whether the next snapshot is due.
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

    /// Returns the snapshot at which a dump begins; `None` if the history is not complete at any
    /// snapshot. The history is complete from `whole_mono_ns` on. Returns the last snapshot between
    /// `whole_mono_ns` and `asked_mono_ns`. If there is none, returns the first snapshot after
    /// `whole_mono_ns`. Times are CLOCK_MONOTONIC in ns.
    pub(crate) fn before(&self, asked_mono_ns: u64, whole_mono_ns: u64) -> Option<&Snapshot> {
        let at = |snapshot: &&Snapshot| snapshot.anchor.mono_ns;
        let mut whole = self.0.iter().filter(|it| at(it) >= whole_mono_ns);
        let first = whole.clone().next();
        whole.rfind(|it| at(it) <= asked_mono_ns).or(first)
    }

    /// Returns the snapshots after `first`, ordered by time.
    pub(crate) fn after(&self, first: &Snapshot) -> impl Iterator<Item = &Snapshot> {
        let first_ns = first.anchor.mono_ns;
        let all = self.0.iter();
        all.filter(move |snapshot| snapshot.anchor.mono_ns > first_ns)
    }
}
