//! Shares: the names for the causes of lost time.

use serde::{Deserialize, Serialize};

/// Cause of a part of a gap's time. Text output, JSON and recordings use the name that
/// [`Share::name`] returns.
///
/// The shares `nmi`, `irq`, `softirq` and `thread` come from the osnoise paper. The shares of the
/// hypervisor come from the thesis, which has fewer of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Non-maskable interrupts of the workload's own kernel.
    Nmi,
    /// Interrupts of the workload's own kernel, without NMIs.
    Irq,
    /// Softirqs of the workload's own kernel, without interrupts and NMIs.
    Softirq,
    /// Other threads of the workload's own kernel, without interrupts, softirqs and NMIs.
    Thread,
    /// A task of the host ran instead of the runnable vCPU.
    Preempted,
    /// The steal clock counted that the vCPU was runnable but did not run, and no probe saw which
    /// task ran instead.
    Steal,
    /// The vCPU was runnable, but no task ran on the CPU because of real-time throttling or a
    /// quota.
    Throttled,
    /// The vCPU thread slept in KVM or the VMM, although the guest had not asked to sleep.
    Blocked,
    /// Interrupts of the host while the vCPU did not run its guest.
    HostIrq,
    /// Softirqs of the host while the vCPU did not run its guest.
    HostSoftirq,
    /// Non-maskable interrupts of the host while the vCPU did not run its guest.
    HostNmi,
    /// An exit that the host kernel handled, without the time of all shares above.
    Kvm,
    /// An exit that the VMM process handled.
    Vmm,
    /// The guest had asked to sleep. This time is not noise.
    Halted,
    /// Rest of a gap without another cause, if all layers below were observed or no layer is below.
    Hw,
    /// Rest of a gap without another cause, if a layer below could not be observed.
    HvOrHw,
    /// Rest of a gap that contains an activity or an exit, if all layers below were observed.
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

    /// Returns the share with this name, or `None` if there is no such share.
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

    /// Shares for the part of a gap that no probe explains.
    pub const RESIDUALS: [Share; 3] = [Share::Hw, Share::HvOrHw, Share::Unexplained];

    /// Shares of the host's interrupts: interrupts, softirqs and NMIs.
    pub const HOST_INTERRUPTS: [Share; 3] = [Share::HostIrq, Share::HostSoftirq, Share::HostNmi];

    /// Returns whether an exit of a vCPU can have this share.
    pub fn is_of_exits(self) -> bool {
        Share::OF_EXITS.contains(&self)
    }

    /// Returns whether the share belongs to the quantity VIRT in the thesis about VM noise. VIRT is
    /// an exit without the time of other tasks and without the sleep that the guest asked for.
    pub fn is_virt(self) -> bool {
        self.is_of_exits() && !matches!(self, Share::Preempted | Share::Halted)
    }

    /// Returns whether the share is a part of an exit that did not belong to the vCPU's own thread,
    /// but to another task, an interrupt, or a wait.
    pub fn is_of_others(self) -> bool {
        self.is_of_exits() && !matches!(self, Share::Kvm | Share::Vmm | Share::Halted)
    }

    /// Returns whether the share is for the part of a gap that no probe explains.
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
