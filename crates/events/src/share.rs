//! Shares: the names of the causes of lost time.

use serde::{Deserialize, Serialize};

/// Cause of a lost nanosecond of a gap. Text, JSON and recordings use [`Share::name`].
///
/// Sources of the split: the osnoise paper for `nmi`, `irq`, `softirq` and `thread`; the thesis for
/// the hypervisor's part, with finer shares here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Non-maskable interrupts of the kernel the workload runs on.
    Nmi,
    /// Interrupts of the kernel the workload runs on, net.
    Irq,
    /// Softirqs of the kernel the workload runs on, net.
    Softirq,
    /// Other threads of the kernel the workload runs on, net.
    Thread,
    /// A host task ran instead of the runnable vCPU.
    Preempted,
    /// The steal clock counted the vCPU as runnable but not running, and no task was seen in its
    /// place.
    Steal,
    /// The vCPU was runnable and nobody ran: real-time throttling or a quota.
    Throttled,
    /// The vCPU thread slept in KVM or the VMM although its guest had not asked for it.
    Blocked,
    /// Host interrupts while the vCPU was out.
    HostIrq,
    /// Host softirqs while the vCPU was out.
    HostSoftirq,
    /// Host non-maskable interrupts while the vCPU was out.
    HostNmi,
    /// An exit handled in the host kernel, net of all shares above.
    Kvm,
    /// An exit handled by the VMM process.
    Vmm,
    /// The guest asked to sleep; not noise.
    Halted,
    /// Residual of a gap for which every lower layer was observed, or there is none.
    Hw,
    /// Residual of a gap for which a lower layer could not be observed.
    HvOrHw,
    /// Residual of a gap that holds an activity or an exit, with all layers observed.
    Unexplained,
}

impl Share {
    /// Every share, in the order in which results list them.
    pub const ALL: [Share; 17] = [
        Share::Nmi,
        Share::Irq,
        Share::Softirq,
        Share::Thread,
        Share::Preempted,
        Share::Steal,
        Share::Throttled,
        Share::Blocked,
        Share::HostIrq,
        Share::HostSoftirq,
        Share::HostNmi,
        Share::Kvm,
        Share::Vmm,
        Share::Halted,
        Share::Hw,
        Share::HvOrHw,
        Share::Unexplained,
    ];

    /// Returns the word for this share in text, JSON and recordings.
    pub const fn name(self) -> &'static str {
        match self {
            Share::Nmi => "nmi",
            Share::Irq => "irq",
            Share::Softirq => "softirq",
            Share::Thread => "thread",
            Share::Preempted => "preempted",
            Share::Steal => "steal",
            Share::Throttled => "throttled",
            Share::Blocked => "blocked",
            Share::HostIrq => "host_irq",
            Share::HostSoftirq => "host_softirq",
            Share::HostNmi => "host_nmi",
            Share::Kvm => "kvm",
            Share::Vmm => "vmm",
            Share::Halted => "halted",
            Share::Hw => "hw",
            Share::HvOrHw => "hv_or_hw",
            Share::Unexplained => "unexplained",
        }
    }

    /// Returns the share with this name, or `None`.
    pub fn named(name: &str) -> Option<Share> {
        Share::ALL.into_iter().find(|share| share.name() == name)
    }

    /// Shares of a vCPU's exit, in the order of columns, feed frames and results.
    pub const OF_EXITS: [Share; 9] = [
        Share::Kvm,
        Share::Vmm,
        Share::Preempted,
        Share::Blocked,
        Share::Throttled,
        Share::HostIrq,
        Share::HostSoftirq,
        Share::HostNmi,
        Share::Halted,
    ];

    /// Shares for the rest of a gap that no probe explains.
    pub const RESIDUALS: [Share; 3] = [Share::Hw, Share::HvOrHw, Share::Unexplained];

    /// Shares of the host's interrupts of any kind.
    pub const HOST_INTERRUPTS: [Share; 3] = [Share::HostIrq, Share::HostSoftirq, Share::HostNmi];

    /// Returns whether an exit of a vCPU can have this share.
    pub fn is_of_exits(self) -> bool {
        Share::OF_EXITS.contains(&self)
    }

    /// Returns whether the share belongs to VIRT in the thesis of VM noise: any part of an exit
    /// except another task's turn and the sleep that the guest asked for.
    pub fn is_virt(self) -> bool {
        self.is_of_exits() && !matches!(self, Share::Preempted | Share::Halted)
    }

    /// Returns whether another task or an interrupt, not the vCPU's own thread, took this part of
    /// an exit or ended it.
    pub fn is_of_others(self) -> bool {
        self.is_of_exits() && !matches!(self, Share::Kvm | Share::Vmm | Share::Halted)
    }

    /// Returns whether the share is the rest of a gap that no probe explains.
    pub const fn is_residual(self) -> bool {
        matches!(self, Share::Hw | Share::HvOrHw | Share::Unexplained)
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_and_name_are_the_same_word() {
        for share in Share::ALL {
            let json = serde_json::to_string(&share).unwrap();
            assert_eq!(json, format!("\"{}\"", share.name()));
        }
    }

    #[test]
    fn all_is_in_declaration_order() {
        assert!(Share::ALL.is_sorted());
    }
}
