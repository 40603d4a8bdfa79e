//! What a run could see, hence which shares it knows and which are unknown.

use vmnoise_events::{ActivityKind, RunFacts, Share, Witnesses, Workload};

/// What the witnesses of a run make known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    workload: Workload,
    witnesses: Witnesses,
    below_unwitnessed: bool,
}

/// The share of a vCPU's time that an activity of its host took.
pub(crate) fn share_of_host(kind: ActivityKind) -> Share {
    match kind {
        ActivityKind::Exit => Share::Kvm,
        ActivityKind::Vmm => Share::Vmm,
        ActivityKind::Throttled => Share::Throttled,
        ActivityKind::Thread => Share::Preempted,
        ActivityKind::Blocked => Share::Blocked,
        ActivityKind::Softirq => Share::HostSoftirq,
        ActivityKind::Irq => Share::HostIrq,
        ActivityKind::Nmi => Share::HostNmi,
    }
}

impl Sight {
    pub(crate) fn new(facts: &RunFacts) -> Self {
        Self {
            workload: facts.workload,
            witnesses: facts.witnesses,
            below_unwitnessed: facts.layer_below_unwitnessed(),
        }
    }

    /// What is left where no anchor dates gaps and activities on one clock: the
    /// steal clock, which travels with the gap itself.
    pub(crate) fn undated(self) -> Self {
        let steal_clock = self.witnesses.steal_clock;
        Self {
            witnesses: Witnesses {
                steal_clock,
                ..Witnesses::default()
            },
            ..self
        }
    }

    /// The share under which the net time of an activity is booked.
    pub(crate) fn share_of(&self, kind: ActivityKind) -> Share {
        match self.workload {
            Workload::Microvm | Workload::Vcpus => share_of_host(kind),
            Workload::Spin | Workload::Observed => match kind {
                ActivityKind::Exit => Share::Kvm,
                ActivityKind::Vmm => Share::Vmm,
                ActivityKind::Throttled => Share::Throttled,
                ActivityKind::Thread => Share::Thread,
                ActivityKind::Blocked => Share::Blocked,
                ActivityKind::Softirq => Share::Softirq,
                ActivityKind::Irq => Share::Irq,
                ActivityKind::Nmi => Share::Nmi,
            },
        }
    }

    pub(crate) fn has_steal_clock(&self) -> bool {
        self.witnesses.steal_clock
    }

    pub(crate) fn has_activity_steal(&self) -> bool {
        self.witnesses.activity_steal
    }

    /// Whether activities and gaps read one and the same steal clock. The activities
    /// around a microVM are its host's: they read the clock of a machine below that.
    pub(crate) fn has_one_steal_clock(&self) -> bool {
        match self.workload {
            Workload::Microvm | Workload::Vcpus => false,
            Workload::Spin | Workload::Observed => true,
        }
    }

    /// Whether nobody feels gaps, so that they are what the activities leave of a thread.
    pub(crate) fn is_observed(&self) -> bool {
        self.workload == Workload::Observed
    }

    pub(crate) fn witnesses(&self) -> &Witnesses {
        &self.witnesses
    }

    /// Whether a residual could be the work of a layer nobody watched: one below
    /// this machine, or this kernel itself where its tracing is off.
    pub(crate) fn is_blind(&self) -> bool {
        self.below_unwitnessed || !self.witnesses.sched || !self.witnesses.irq
    }

    /// Whether a share of 0 would mean "none" and not "not seen".
    pub(crate) fn knows(&self, share: Share) -> bool {
        let is_microvm = self.workload == Workload::Microvm;
        if self.is_observed() {
            match share {
                Share::Steal => return self.witnesses.activity_steal,
                // Its sleep is its own affair, and a pause below this kernel is not felt.
                Share::Blocked | Share::Hw | Share::HvOrHw => return false,
                Share::Unexplained => return true,
                _ => {}
            }
        }
        match share {
            // The guest of the microVM has no kernel, and it never halts.
            Share::Nmi => is_microvm || self.witnesses.nmi,
            Share::Irq => is_microvm || self.witnesses.irq,
            Share::Softirq => is_microvm || self.witnesses.softirq,
            Share::Thread => is_microvm || self.witnesses.sched,
            Share::Throttled | Share::Blocked => self.witnesses.sched,
            Share::Steal => self.witnesses.steal_clock,
            // Only a microVM has its host's kernel as a witness.
            Share::Preempted => is_microvm && self.witnesses.sched,
            Share::HostIrq => is_microvm && self.witnesses.irq,
            Share::HostSoftirq => is_microvm && self.witnesses.softirq,
            Share::HostNmi => is_microvm && self.witnesses.nmi,
            Share::Kvm => is_microvm && self.witnesses.kvm_exit,
            Share::Vmm => is_microvm && self.witnesses.kvm_run,
            Share::Halted => is_microvm,
            Share::HvOrHw => self.is_blind(),
            Share::Hw | Share::Unexplained => !self.is_blind(),
        }
    }
}
