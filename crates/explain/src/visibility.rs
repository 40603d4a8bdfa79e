//! Visibility of a run: the shares whose time the run knows.

use vmnoise_events::{ActivityKind, MeasuringCommand, RunFacts, Share, ShareMap, Witnesses};

/// Facts that the probes of a run make known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visibility {
    workload: MeasuringCommand,
    witnesses: Witnesses,
    below_unwitnessed: bool,
    posted_interrupts: bool,
    host: Option<HostVisibility>,
}

/// Facts that the recording of a guest's host makes known.
#[derive(Debug, Clone, Copy)]
struct HostVisibility {
    witnesses: Witnesses,
    /// Whether every exit is reported individually.
    reports_all: bool,
    /// Whether the host runs on bare metal.
    is_last: bool,
}

/// Coverage of one gap by the recording of the guest's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCoverage {
    /// No coverage: the host did not record, the vCPU was not on this host, or the vCPU's clock is
    /// unknown.
    None,
    /// The host reported its exits. `is_whole` is true if no record of either kernel can be
    /// missing.
    Host { is_whole: bool },
}

/// Returns the share to which the net time of an activity belongs.
pub fn share_of(workload: MeasuringCommand, kind: ActivityKind) -> Share {
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

/// Returns the share of a vCPU's time that an activity of its host took.
pub(crate) fn share_of_host(kind: ActivityKind) -> Share {
    match kind {
        ActivityKind::Exit => Share::Kvm,
        ActivityKind::Vmm => Share::Vmm,
        ActivityKind::Throttled => Share::Throttled,
        ActivityKind::Thread => Share::Preempted,
        // An interval with a stop of its workload is no gap.
        ActivityKind::Blocked | ActivityKind::Stopped => Share::Blocked,
        ActivityKind::Softirq => Share::HostSoftirq,
        ActivityKind::Irq => Share::HostIrq,
        ActivityKind::Nmi => Share::HostNmi,
    }
}

/// Returns whether these probes on the host see all time that a vCPU lost to this share.
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

    /// Returns the visibility of a guest's run that is joined with its host's recording.
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

    /// Returns whether the run is joined with a recording of the host.
    pub(crate) fn is_joined(&self) -> bool {
        self.host.is_some()
    }

    /// Returns whether every light and heavy exit of a covered gap is reported.
    pub(crate) fn counts_exits(&self) -> bool {
        let counts = |host: HostVisibility| host.reports_all && host.witnesses.kvm_exit;
        self.host.is_some_and(counts)
    }

    /// Returns whether the host sees KVM's work. The host then sees all time in which a vCPU is not
    /// in its guest.
    pub(crate) fn host_sees_kvm(&self) -> bool {
        self.host.is_some_and(|host| host.witnesses.kvm_exit)
    }

    /// Returns whether only the hardware can take time for which the host reports nothing.
    /// Interrupts that the host cannot see do not matter, because each one that the host handles
    /// causes an exit.
    pub(crate) fn host_sees_all(&self) -> bool {
        self.host.is_some_and(|host| {
            let sees_kernel = host.witnesses.see_kernel();
            host.is_last && sees_kernel && host.witnesses.kvm_run && self.counts_exits()
        })
    }

    /// Returns the visibility of a run without anchors. Gaps and activities then have no common
    /// clock. Only the steal clock remains, because each gap contains its reading.
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

    /// Returns the share to which the net time of an activity belongs.
    pub(crate) fn share_of(&self, kind: ActivityKind) -> Share {
        share_of(self.workload, kind)
    }

    /// Returns whether a feed may report about the host of this kernel. The host of a microVM is
    /// this kernel itself.
    pub(crate) fn may_have_feed(&self) -> bool {
        !self.workload.is_witnessed_by_host()
    }

    pub(crate) fn has_steal_clock(&self) -> bool {
        self.witnesses.steal_clock
    }

    /// Returns whether gaps contain the run delay of their thread.
    pub(crate) fn has_run_delay(&self) -> bool {
        self.witnesses.run_delay
    }

    /// Returns whether no probe sees this kernel. The residual may then belong to any layer.
    pub(crate) fn sees_nothing(&self) -> bool {
        self.witnesses.see_nothing()
    }

    pub(crate) fn has_activity_steal(&self) -> bool {
        self.witnesses.activity_steal
    }

    /// Returns whether activities and gaps read the same steal clock. The activities around a
    /// microVM belong to its host, so they read the clock of the machine below the host.
    pub(crate) fn has_one_steal_clock(&self) -> bool {
        !self.workload.is_witnessed_by_host()
    }

    /// Returns whether gaps are derived from the activities of a thread. No workload then observes
    /// the gaps.
    pub(crate) fn is_observed(&self) -> bool {
        self.workload == MeasuringCommand::Observed
    }

    /// Returns whether the workload consists of periodic tasks, which observe no gaps.
    pub(crate) fn is_timer(&self) -> bool {
        self.workload == MeasuringCommand::Timerlat
    }

    /// Returns whether gaps are stamped with the TSC. Wake-ups and derived gaps already have
    /// CLOCK_MONOTONIC.
    pub(crate) fn dates_by_tsc(&self) -> bool {
        !self.is_observed() && !self.is_timer()
    }

    pub(crate) fn witnesses(&self) -> &Witnesses {
        &self.witnesses
    }

    /// Returns whether the residual may belong to an unwatched layer: one below this machine, an
    /// invisible KVM, or this kernel itself. `is_unposted` is true if no posted interrupt came.
    pub(crate) fn is_blind(&self, is_unposted: bool) -> bool {
        let hides_kvm = self.workload == MeasuringCommand::Microvm && !self.sees_kvm();
        self.below_unwitnessed || hides_kvm || self.is_blind_itself(is_unposted)
    }

    /// Returns whether the residual may belong to this kernel, because some of its work is not
    /// seen. If exits are seen, unseen interrupts do not matter: a vCPU leaves its guest for each
    /// interrupt that the kernel handles.
    pub(crate) fn is_blind_itself(&self, is_unposted: bool) -> bool {
        let sees_exits = self.workload == MeasuringCommand::Microvm && self.sees_kvm();
        let posts = self.posted_interrupts && !is_unposted;
        let hides_interrupts = posts || self.witnesses.hides_vectors;
        !self.witnesses.see_kernel() || hides_interrupts && !sees_exits
    }

    fn sees_kvm(&self) -> bool {
        self.witnesses.kvm_run && self.witnesses.kvm_exit
    }

    /// Returns whether a time of 0 means that nothing was lost to this share, for a gap that the
    /// host's recording covers.
    fn knows_beside(&self, share: Share) -> bool {
        let Some(HostVisibility { witnesses, .. }) = self.host else {
            return false;
        };
        match share {
            Share::Unexplained => self.sees_nothing() || !self.is_blind_itself(false),
            // The residual of a wake-up is never known to be the hardware's.
            Share::Hw => !self.is_timer() && !self.is_blind_itself(false) && self.host_sees_all(),
            share => host_sees(share, &witnesses),
        }
    }

    /// Returns the known values of these sums. A value is known if it is not 0, or if 0 means that
    /// nothing was lost to its share. `is_reported` is true if the host reported a part of the
    /// sums.
    pub(crate) fn known(&self, ns: &ShareMap<u64>, is_reported: bool) -> ShareMap<Option<u64>> {
        ns.known(|share| self.knows(share) || is_reported && self.knows_beside(share))
    }

    /// Returns whether a time of 0 means that nothing was lost to this share, and not that no probe
    /// could see a loss.
    fn knows(&self, share: Share) -> bool {
        let is_microvm = self.workload == MeasuringCommand::Microvm;
        if self.is_timer() {
            match share {
                Share::Steal => return self.witnesses.activity_steal,
                // The task's own sleep is no loss, and the residual is never known to be the
                // hardware's.
                Share::Blocked | Share::Hw => return false,
                _ => {}
            }
        }
        if self.is_observed() {
            match share {
                Share::Steal => return self.witnesses.activity_steal,
                // The thread's own sleep is no loss, and a pause below this kernel is not observed.
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
            // Only a microVM sees the events of its host's kernel.
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
