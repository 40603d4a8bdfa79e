//! The names under which lost time is booked.

use serde::{Deserialize, Serialize};

/// Where a nanosecond of a gap went. Text, JSON and recordings use [`Share::name`].
///
/// Source of the split: the osnoise paper for `nmi`, `irq`, `softirq` and
/// `thread`; the thesis for the hypervisor's part, cut finer here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Non-maskable interrupts of the kernel the workload runs on.
    Nmi,
    /// Interrupts of the kernel the workload runs on, net.
    Irq,
    /// Soft interrupts of the kernel the workload runs on, net.
    Softirq,
    /// Other threads of the kernel the workload runs on, net.
    Thread,
    /// A host task ran instead of the runnable vCPU.
    Preempted,
    /// Runnable but not running by the steal clock, and no task was witnessed.
    Steal,
    /// Runnable, and nobody ran: real-time throttling or a quota.
    Throttled,
    /// The vCPU thread slept in KVM or the VMM without the guest asking.
    Blocked,
    /// Host interrupts while the vCPU was out.
    HostIrq,
    /// Host soft interrupts while the vCPU was out.
    HostSoftirq,
    /// Host non-maskable interrupts while the vCPU was out.
    HostNmi,
    /// An exit handled in the host kernel, net of all the above.
    Kvm,
    /// An exit handled by the VMM process.
    Vmm,
    /// The vCPU asked to sleep: not noise.
    Halted,
    /// Residual where every layer below was witnessed or none exists.
    Hw,
    /// Residual where a layer below could not be witnessed.
    HvOrHw,
    /// Residual of a gap that holds an activity or an exit, all layers witnessed.
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

    /// The word for this share in text, JSON and recordings.
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

    /// The share with this name; `None` where there is none.
    pub fn named(name: &str) -> Option<Share> {
        Share::ALL.into_iter().find(|share| share.name() == name)
    }

    /// What an exit of a vCPU is split into, in the order of its columns, of the frames of a feed
    /// and of results.
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

    /// What a gap leaves over once every witness has spoken.
    pub const RESIDUALS: [Share; 3] = [Share::Hw, Share::HvOrHw, Share::Unexplained];

    /// What the host's interrupts of any kind took of a vCPU.
    pub const HOST_INTERRUPTS: [Share; 3] = [Share::HostIrq, Share::HostSoftirq, Share::HostNmi];

    /// Whether an exit of a vCPU can have it.
    pub fn is_of_exits(self) -> bool {
        Share::OF_EXITS.contains(&self)
    }

    /// Whether it is the part of an exit that the thesis of VM noise calls VIRT: neither another
    /// task's turn nor the sleep that the guest asked for.
    pub fn is_virt(self) -> bool {
        self.is_of_exits() && !matches!(self, Share::Preempted | Share::Halted)
    }

    /// Whether it is the part of an exit that somebody else than the vCPU's own thread had, or
    /// ended.
    pub fn is_of_others(self) -> bool {
        self.is_of_exits() && !matches!(self, Share::Kvm | Share::Vmm | Share::Halted)
    }

    /// Whether this is what a gap leaves over once every witness has spoken.
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
