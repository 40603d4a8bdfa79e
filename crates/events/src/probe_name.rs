//! Names of probes in results, and the probes that watch each share of lost time.

use crate::Share;

/// A probe that watches shares of lost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeName {
    /// Interrupts.
    Irq,
    /// Softirqs.
    Softirq,
    /// NMIs.
    Nmi,
    /// Context switches and wake-ups.
    Sched,
    /// Migrations of an observed thread between CPUs.
    Follow,
    /// Entries to KVM_RUN and returns from it.
    KvmRun,
    /// VM exits.
    KvmExit,
    /// Timers of the periodic tasks.
    Timer,
    /// The steal clock that this machine's hypervisor offers.
    StealOfMachine,
    /// The steal clock that this machine offers to its guest.
    StealOfGuest,
    /// Readings of the steal clock by the workload after each gap.
    StealAtGaps,
    /// All probes that name culprits, in a run without BPF.
    Activities,
}

impl ProbeName {
    /// Returns the name of the probe in results.
    pub const fn name(self) -> &'static str {
        match self {
            ProbeName::Irq => "host interrupts",
            ProbeName::Softirq => "host soft interrupts",
            ProbeName::Nmi => "host NMIs",
            ProbeName::Sched => "host tasks",
            ProbeName::Follow => "moves of the thread",
            ProbeName::KvmRun => "KVM_RUN left and entered",
            ProbeName::KvmExit => "VM exits",
            ProbeName::Timer => "timers of the tasks",
            ProbeName::StealOfMachine => "steal clock of this machine",
            ProbeName::StealOfGuest => "steal clock of the guest",
            ProbeName::StealAtGaps => "steal at each gap",
            ProbeName::Activities => "host activities",
        }
    }

    /// Returns the probes that watch this share.
    pub const fn of_share(share: Share) -> &'static [ProbeName] {
        match share {
            Share::Irq | Share::HostIrq => &[ProbeName::Irq],
            Share::Softirq | Share::HostSoftirq => &[ProbeName::Softirq],
            Share::Nmi | Share::HostNmi => &[ProbeName::Nmi],
            Share::Thread
            | Share::Preempted
            | Share::Throttled
            | Share::Blocked
            | Share::Halted => &[ProbeName::Sched],
            Share::Kvm => &[ProbeName::KvmExit],
            Share::Vmm => &[ProbeName::KvmRun],
            Share::Steal => &[
                ProbeName::StealAtGaps,
                ProbeName::StealOfGuest,
                ProbeName::StealOfMachine,
            ],
            Share::Hw | Share::HvOrHw | Share::Unexplained => &[],
        }
    }
}
