//! What a run could see, hence which shares it knows and which are unknown.

use vmnoise_events::{ActivityKind, RunFacts, Share, ShareMap, Witnesses, Workload};

/// What the witnesses of a run make known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visibility {
    workload: Workload,
    witnesses: Witnesses,
    below_unwitnessed: bool,
    hidden_interrupts: bool,
    host: Option<HostVisibility>,
}

/// What the recording of a guest's host makes known.
#[derive(Debug, Clone, Copy)]
struct HostVisibility {
    witnesses: Witnesses,
    /// Every exit is reported one by one.
    reports_all: bool,
    /// Nothing lies below the host that it could not see.
    is_last: bool,
    /// Interrupts may come to it that it cannot see.
    hidden_interrupts: bool,
}

/// What the host of a guest says of one gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCoverage {
    /// Nothing: it did not record, or its clock is not known.
    None,
    /// Its exits; whether nothing can be missing of either kernel's stream.
    Host { is_whole: bool },
}

/// The share under which the net time of an activity is booked.
pub fn share_of(workload: Workload, kind: ActivityKind) -> Share {
    match workload.is_witnessed_by_host() {
        true => share_of_host(kind),
        false => match kind {
            ActivityKind::Exit => Share::Kvm,
            ActivityKind::Vmm => Share::Vmm,
            ActivityKind::Throttled => Share::Throttled,
            ActivityKind::Thread => Share::Thread,
            ActivityKind::Blocked | ActivityKind::Stopped => Share::Blocked,
            ActivityKind::Softirq => Share::Softirq,
            ActivityKind::Irq => Share::Irq,
            ActivityKind::Nmi => Share::Nmi,
        },
    }
}

/// The share of a vCPU's time that an activity of its host took.
pub(crate) fn share_of_host(kind: ActivityKind) -> Share {
    match kind {
        ActivityKind::Exit => Share::Kvm,
        ActivityKind::Vmm => Share::Vmm,
        ActivityKind::Throttled => Share::Throttled,
        ActivityKind::Thread => Share::Preempted,
        // A gap with a stop of its workload in it is none.
        ActivityKind::Blocked | ActivityKind::Stopped => Share::Blocked,
        ActivityKind::Softirq => Share::HostSoftirq,
        ActivityKind::Irq => Share::HostIrq,
        ActivityKind::Nmi => Share::HostNmi,
    }
}

/// Whether these witnesses on the host of a vCPU see all that it lost to a share.
pub(crate) fn host_sees(share: Share, witnesses: &Witnesses) -> bool {
    match share {
        Share::Preempted | Share::Throttled | Share::Blocked | Share::Halted => witnesses.sched,
        Share::HostIrq => witnesses.irq,
        Share::HostSoftirq => witnesses.softirq,
        Share::HostNmi => witnesses.nmi,
        Share::Kvm => witnesses.kvm_exit && witnesses.see_kernel(),
        Share::Vmm => witnesses.kvm_run,
        Share::Nmi
        | Share::Irq
        | Share::Softirq
        | Share::Thread
        | Share::Steal
        | Share::Hw
        | Share::HvOrHw
        | Share::Unexplained => false,
    }
}

impl Visibility {
    pub(crate) fn new(facts: &RunFacts) -> Self {
        Self {
            workload: facts.workload,
            witnesses: facts.witnesses,
            below_unwitnessed: facts.layer_below_unwitnessed(),
            hidden_interrupts: facts.has_hidden_interrupts(),
            host: None,
        }
    }

    /// As `new`, beside the recording of its host.
    pub(crate) fn beside(self, host: &RunFacts) -> Self {
        let filter = host.options.exits.as_ref();
        let reports_each = filter.is_none_or(|filter| filter.reasons.is_empty());
        Self {
            host: Some(HostVisibility {
                witnesses: host.witnesses,
                reports_all: reports_each && host.options.threshold_ns == 0,
                is_last: !host.layer_below_unwitnessed(),
                hidden_interrupts: host.has_hidden_interrupts(),
            }),
            ..self
        }
    }

    /// Whether a host's recording covers any gap.
    pub(crate) fn is_joined(&self) -> bool {
        self.host.is_some()
    }

    /// Whether every light and heavy exit of a witnessed gap is reported.
    pub(crate) fn counts_exits(&self) -> bool {
        let counts = |host: HostVisibility| host.reports_all && host.witnesses.kvm_exit;
        self.host.is_some_and(counts)
    }

    /// Whether the host sees what KVM does, and so whenever a vCPU is not in its guest.
    pub(crate) fn host_sees_kvm(&self) -> bool {
        self.host.is_some_and(|host| host.witnesses.kvm_exit)
    }

    /// Whether nobody but the hardware is left where the host says nothing.
    pub(crate) fn host_sees_all(&self) -> bool {
        self.host.is_some_and(|host| {
            let sees_kernel = host.witnesses.see_kernel() && !host.hidden_interrupts;
            host.is_last && sees_kernel && host.witnesses.kvm_run && self.counts_exits()
        })
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
        share_of(self.workload, kind)
    }

    /// Whether a feed may say what the host of this kernel did: the host of a microVM is
    /// this kernel itself.
    pub(crate) fn may_have_feed(&self) -> bool {
        !self.workload.is_witnessed_by_host()
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
        !self.workload.is_witnessed_by_host()
    }

    /// Whether nobody observes gaps, so that they are what the activities leave of a thread.
    pub(crate) fn is_observed(&self) -> bool {
        self.workload == Workload::Observed
    }

    /// Whether tasks wake up, and observe no gaps.
    pub(crate) fn is_timer(&self) -> bool {
        self.workload == Workload::Timerlat
    }

    pub(crate) fn witnesses(&self) -> &Witnesses {
        &self.witnesses
    }

    /// Whether a residual could be the work of a layer nobody watched: one below
    /// this machine, KVM where it is out of sight, or this kernel itself.
    pub(crate) fn is_blind(&self) -> bool {
        let sees_kvm = self.witnesses.kvm_run && self.witnesses.kvm_exit;
        let hides_kvm = self.workload == Workload::Microvm && !sees_kvm;
        self.below_unwitnessed || hides_kvm || self.is_blind_itself()
    }

    /// Whether a residual could be this kernel's own, because some of its work is out of
    /// sight.
    pub(crate) fn is_blind_itself(&self) -> bool {
        !self.witnesses.see_kernel() || self.hidden_interrupts
    }

    /// Whether a share of 0 would mean "none" in a gap of which the host reported.
    fn knows_beside(&self, share: Share) -> bool {
        let Some(HostVisibility { witnesses, .. }) = self.host else {
            return false;
        };
        match share {
            Share::Unexplained => !self.is_blind_itself(),
            // Of a wake-up nothing is ever known to be the hardware's.
            Share::Hw => !self.is_timer() && !self.is_blind_itself() && self.host_sees_all(),
            share => host_sees(share, &witnesses),
        }
    }

    /// What is known of these sums: where something is booked, or a share of 0 means "none".
    /// `is_reported` says that the host reported a part of them.
    pub(crate) fn known(&self, ns: &ShareMap<u64>, is_reported: bool) -> ShareMap<Option<u64>> {
        ns.known(|share| self.knows(share) || is_reported && self.knows_beside(share))
    }

    /// Whether a share of 0 would mean "none" and not "not seen".
    fn knows(&self, share: Share) -> bool {
        let is_microvm = self.workload == Workload::Microvm;
        if self.is_timer() {
            match share {
                Share::Steal => return self.witnesses.activity_steal,
                // Its sleep is its own affair, and what is left over is never known to be
                // the hardware's.
                Share::Blocked | Share::Hw => return false,
                _ => {}
            }
        }
        if self.is_observed() {
            match share {
                Share::Steal => return self.witnesses.activity_steal,
                // Its sleep is its own affair, and a pause below this kernel is not observed.
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
            Share::Preempted
            | Share::HostIrq
            | Share::HostSoftirq
            | Share::HostNmi
            | Share::Vmm => is_microvm && host_sees(share, &self.witnesses),
            Share::Kvm => is_microvm && self.witnesses.kvm_exit,
            Share::Halted => is_microvm,
            Share::HvOrHw => self.is_blind(),
            Share::Hw | Share::Unexplained => !self.is_blind(),
        }
    }
}
