//! What a run could see, hence which shares it knows and which are unknown.

use vmnoise_events::{ActivityKind, RunFacts, Share, ShareMap, Witnesses, Workload};

/// What the witnesses of a run make known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visibility {
    workload: Workload,
    witnesses: Witnesses,
    below_unwitnessed: bool,
    posted_interrupts: bool,
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
}

/// What the host of a guest says of one gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCoverage {
    /// Nothing: it did not record, the vCPU was not there, or its clock is not known.
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
            posted_interrupts: facts.may_have_posted_interrupts(),
            host: None,
        }
    }

    /// As `new`, beside the recording of its host.
    pub(crate) fn beside(self, host: &RunFacts) -> Self {
        Self {
            host: Some(HostVisibility {
                witnesses: host.witnesses,
                reports_all: host.reports_each_exit(),
                is_last: !host.layer_below_unwitnessed(),
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

    /// Whether nobody but the hardware is left where the host says nothing. Interrupts that the host cannot see
    /// do not matter: the guest is left for each one that the host handles, and that is an exit.
    pub(crate) fn host_sees_all(&self) -> bool {
        self.host.is_some_and(|host| {
            let sees_kernel = host.witnesses.see_kernel();
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

    /// Whether gaps say how long their thread waited for its CPU.
    pub(crate) fn has_run_delay(&self) -> bool {
        self.witnesses.run_delay
    }

    /// Whether nothing of this kernel is seen: what is left over may be anybody's.
    pub(crate) fn sees_nothing(&self) -> bool {
        self.witnesses.see_nothing()
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

    /// Whether gaps are stamped with the TSC: wake-ups, and what is derived from activities, have
    /// CLOCK_MONOTONIC already.
    pub(crate) fn dates_by_tsc(&self) -> bool {
        !self.is_observed() && !self.is_timer()
    }

    pub(crate) fn witnesses(&self) -> &Witnesses {
        &self.witnesses
    }

    /// Whether a residual could be the work of a layer nobody watched: one below
    /// this machine, KVM where it is out of sight, or this kernel itself. `is_unposted` says that no
    /// posted interrupt came.
    pub(crate) fn is_blind(&self, is_unposted: bool) -> bool {
        let hides_kvm = self.workload == Workload::Microvm && !self.sees_kvm();
        self.below_unwitnessed || hides_kvm || self.is_blind_itself(is_unposted)
    }

    /// Whether a residual could be this kernel's own, because some of its work is out of
    /// sight. A vCPU leaves its guest for each interrupt that the kernel handles, which is an exit: where
    /// those are seen, it does not matter who sees the interrupt.
    pub(crate) fn is_blind_itself(&self, is_unposted: bool) -> bool {
        let sees_exits = self.workload == Workload::Microvm && self.sees_kvm();
        let posts = self.posted_interrupts && !is_unposted;
        let hides_interrupts = posts || self.witnesses.hides_vectors;
        !self.witnesses.see_kernel() || hides_interrupts && !sees_exits
    }

    fn sees_kvm(&self) -> bool {
        self.witnesses.kvm_run && self.witnesses.kvm_exit
    }

    /// Whether a share of 0 would mean "none" in a gap of which the host reported.
    fn knows_beside(&self, share: Share) -> bool {
        let Some(HostVisibility { witnesses, .. }) = self.host else {
            return false;
        };
        match share {
            Share::Unexplained => self.sees_nothing() || !self.is_blind_itself(false),
            // Of a wake-up nothing is ever known to be the hardware's.
            Share::Hw => !self.is_timer() && !self.is_blind_itself(false) && self.host_sees_all(),
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
            Share::Thread => is_microvm || self.witnesses.sched || self.witnesses.run_delay,
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
            Share::Hw => !self.is_blind(false),
            Share::HvOrHw => !self.sees_nothing() && self.is_blind(false),
            Share::Unexplained => self.sees_nothing() || !self.is_blind(false),
        }
    }
}
