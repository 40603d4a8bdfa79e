//! What each VM has lost so far, out of its vCPUs' books. Sums only grow, and add up. Pure: no BPF.

use std::collections::BTreeMap;

use vmnoise_events::{Name, VmIdentity};
use vmnoise_tracer::{Culprit, Place, VcpuBooks, VcpuState, WaitLengths};

use crate::culprits::Culprits;
use crate::who::Who;

/// Time in ns by what kept a VM's vCPUs from running, each of them by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) preempted: u64,
    pub(crate) throttled: u64,
    pub(crate) idle: u64,
    pub(crate) unsure: u64,
    pub(crate) blocked: u64,
    pub(crate) unseen: u64,
}

impl Lost {
    /// Until this instant, which is before the books were read.
    fn of(books: &VcpuBooks, mono_ns: u64) -> Lost {
        let quiet = books.throttled_ns + books.idle_ns + books.unsure_ns;
        Lost {
            preempted: books.spent_ns(VcpuState::Waiting).saturating_sub(quiet),
            throttled: books.throttled_ns,
            idle: books.idle_ns,
            unsure: books.unsure_ns,
            blocked: books.spent_until_ns(VcpuState::Blocked, mono_ns),
            unseen: books.spent_until_ns(VcpuState::Unseen, mono_ns),
        }
    }

    /// What came since then.
    fn since(&self, earlier: &Lost) -> Lost {
        Lost {
            preempted: self.preempted.saturating_sub(earlier.preempted),
            throttled: self.throttled.saturating_sub(earlier.throttled),
            idle: self.idle.saturating_sub(earlier.idle),
            unsure: self.unsure.saturating_sub(earlier.unsure),
            blocked: self.blocked.saturating_sub(earlier.blocked),
            unseen: self.unseen.saturating_sub(earlier.unseen),
        }
    }

    fn add(&mut self, more: &Lost) {
        self.preempted += more.preempted;
        self.throttled += more.throttled;
        self.idle += more.idle;
        self.unsure += more.unsure;
        self.blocked += more.blocked;
        self.unseen += more.unseen;
    }

    /// Each share by its name.
    pub(crate) fn shares(&self) -> [(&'static str, u64); 6] {
        [
            ("preempted", self.preempted),
            ("throttled", self.throttled),
            ("idle", self.idle),
            ("unsure", self.unsure),
            ("blocked", self.blocked),
            ("unseen", self.unseen),
        ]
    }
}

/// A VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VmTotals {
    /// What it is called in the metrics.
    pub(crate) label: Name,
    pub(crate) identity: VmIdentity,
    pub(crate) lost: Lost,
    /// How long its vCPUs had a CPU.
    pub(crate) ran_ns: u64,
    /// How long they slept at their guest's wish.
    pub(crate) halted_ns: u64,
    /// How long they slept in the VMM, or nobody knows where.
    pub(crate) asleep_ns: u64,
    /// How often they waited for how long.
    pub(crate) waits: WaitLengths,
    /// All waiting that is over, of which `waits` has the lengths.
    pub(crate) waited_ns: u64,
    /// Of what was preempted: by whom, as far as they have a name here.
    pub(crate) culprits: Culprits,
    /// Since when its vCPUs wait that wait now, CLOCK_MONOTONIC in ns.
    waiting_since: BTreeMap<Place, u64>,
    vcpus: BTreeMap<Place, Books>,
}

/// What was booked of a vCPU when it was looked at last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Books {
    lost: Lost,
    ran_ns: u64,
    halted_ns: u64,
    asleep_ns: u64,
    waited_ns: u64,
    waits: WaitLengths,
    culprits: Vec<Culprit>,
}

impl Books {
    fn of(books: &VcpuBooks, mono_ns: u64) -> Books {
        let spent = |state| books.spent_until_ns(state, mono_ns);
        Books {
            lost: Lost::of(books, mono_ns),
            ran_ns: spent(VcpuState::Running),
            halted_ns: spent(VcpuState::Halted),
            asleep_ns: spent(VcpuState::InVmm) + spent(VcpuState::Asleep),
            waited_ns: books.spent_ns(VcpuState::Waiting),
            waits: books.waits,
            culprits: books.culprits.clone(),
        }
    }

    fn none() -> Books {
        Books {
            lost: Lost::default(),
            ran_ns: 0,
            halted_ns: 0,
            asleep_ns: 0,
            waited_ns: 0,
            waits: WaitLengths::none(),
            culprits: Vec::new(),
        }
    }

    /// What this culprit had, if he is still the same: one that lost his name meanwhile, and came
    /// again, has less.
    fn had(&self, culprit: &Culprit) -> u64 {
        let known = self.culprits.iter().find(|known| known.is(culprit));
        let had = known.map_or(0, |known| known.ns);
        if had > culprit.ns { 0 } else { had }
    }
}

impl VmTotals {
    pub(crate) fn new(label: Name, identity: VmIdentity) -> VmTotals {
        VmTotals {
            label,
            identity,
            lost: Lost::default(),
            ran_ns: 0,
            halted_ns: 0,
            asleep_ns: 0,
            waits: WaitLengths::none(),
            waited_ns: 0,
            culprits: Culprits::default(),
            waiting_since: BTreeMap::new(),
            vcpus: BTreeMap::new(),
        }
    }

    /// Takes in what a vCPU of it did until this instant, which is before the books were read. `who` names
    /// culprits. Of a wait that goes on nothing is known yet.
    pub(crate) fn take_in(
        &mut self,
        place: Place,
        books: &VcpuBooks,
        mono_ns: u64,
        who: impl Fn(&Culprit) -> Who,
    ) {
        let now = Books::of(books, mono_ns);
        let before = self.vcpus.remove(&place).unwrap_or_else(Books::none);
        let lost = now.lost.since(&before.lost);
        self.lost.add(&lost);
        self.ran_ns += now.ran_ns.saturating_sub(before.ran_ns);
        self.halted_ns += now.halted_ns.saturating_sub(before.halted_ns);
        self.asleep_ns += now.asleep_ns.saturating_sub(before.asleep_ns);
        self.waited_ns += now.waited_ns.saturating_sub(before.waited_ns);
        self.waits.add(&now.waits.since(&before.waits));
        let known = now.culprits.iter();
        let known = known.map(|culprit| (who(culprit), culprit.ns - before.had(culprit)));
        self.culprits.add(lost.preempted, known);
        match books.state {
            VcpuState::Waiting => {
                let since = books.since_mono_ns.saturating_sub(books.waited_ns);
                _ = self.waiting_since.insert(place, since);
            }
            _ => _ = self.waiting_since.remove(&place),
        }
        self.vcpus.insert(place, now);
    }

    /// A vCPU of it is no more; what it did stays.
    pub(crate) fn forget(&mut self, place: Place) {
        self.vcpus.remove(&place);
        self.waiting_since.remove(&place);
    }

    /// How many vCPUs of it there are.
    pub(crate) fn vcpus(&self) -> usize {
        self.vcpus.len()
    }

    /// How long the vCPU of it that waits longest for a CPU has waited by now; 0 if none does.
    pub(crate) fn longest_wait_ns(&self, now_mono_ns: u64) -> u64 {
        let since = self.waiting_since.values().min();
        since.map_or(0, |since| now_mono_ns.saturating_sub(*since))
    }
}
