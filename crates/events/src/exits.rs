//! Exits of virtual CPUs, as counted where they happen.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{ExitReason, Share, VcpuId};

/// Where the time of exits went, in nanoseconds: one part for each share an exit can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExitSplit {
    /// Handled in the host kernel: what nobody below had.
    pub kvm: u64,
    /// Handled by the VMM process.
    pub vmm: u64,
    /// A host task ran instead of the runnable vCPU.
    pub preempted: u64,
    /// The vCPU thread slept without the guest asking.
    pub blocked: u64,
    /// Runnable, and nobody ran.
    pub throttled: u64,
    /// Host interrupts, net.
    pub host_irq: u64,
    /// Host soft interrupts, net.
    pub host_softirq: u64,
    /// Host non-maskable interrupts.
    pub host_nmi: u64,
    /// The guest asked to sleep: no noise.
    pub halted: u64,
}

impl ExitSplit {
    /// The split that has this part for each share.
    pub fn from_fn(mut part: impl FnMut(Share) -> u64) -> ExitSplit {
        ExitSplit {
            kvm: part(Share::Kvm),
            vmm: part(Share::Vmm),
            preempted: part(Share::Preempted),
            blocked: part(Share::Blocked),
            throttled: part(Share::Throttled),
            host_irq: part(Share::HostIrq),
            host_softirq: part(Share::HostSoftirq),
            host_nmi: part(Share::HostNmi),
            halted: part(Share::Halted),
        }
    }

    /// The parts by their shares, in the order in which results list them.
    pub const fn parts(&self) -> [(Share, u64); 9] {
        [
            (Share::Kvm, self.kvm),
            (Share::Vmm, self.vmm),
            (Share::Preempted, self.preempted),
            (Share::Blocked, self.blocked),
            (Share::Throttled, self.throttled),
            (Share::HostIrq, self.host_irq),
            (Share::HostSoftirq, self.host_softirq),
            (Share::HostNmi, self.host_nmi),
            (Share::Halted, self.halted),
        ]
    }

    /// All of it; stops at the end of a u64, which only a damaged stream reaches.
    pub fn total(&self) -> u64 {
        let parts = self.parts();
        parts.iter().fold(0, |all, (_, ns)| all.saturating_add(*ns))
    }

    /// What the thesis calls overhead: the time that the vCPU's own thread spent on the exit.
    pub const fn overhead(&self) -> u64 {
        self.kvm.saturating_add(self.vmm)
    }
}

/// One exit, from the first sign of the host to the guest's return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Why.
    pub reason: ExitReason,
    /// The CPU it left from.
    pub exit_cpu: u32,
    /// The CPU it returned on.
    pub entry_cpu: u32,
    /// Whether it went to the VMM.
    pub heavy: bool,
    /// Where its time went: adds up to its length.
    pub split: ExitSplit,
}

impl Exit {
    /// Length in nanoseconds.
    pub const fn dur_ns(&self) -> u64 {
        self.end_mono_ns.saturating_sub(self.start_mono_ns)
    }
}

/// One exit of one vCPU. It comes when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuExit {
    /// Whose.
    pub vcpu: VcpuId,
    /// The exit; its split is exact, whatever was lost of the stream.
    pub exit: Exit,
}

/// All exits of a vCPU for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonTotals {
    /// The reason; `None` is all those that found no place of their own.
    pub reason: Option<ExitReason>,
    /// How many.
    pub count: u64,
    /// How many of them went to the VMM.
    pub heavy: u64,
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// Where their time went; its total is theirs.
    pub split: ExitSplit,
    /// Lengths: how many lie at or below each upper edge (nanoseconds), by ascending edge;
    /// edges a quarter of a power of two apart.
    pub histogram: Vec<(u64, u64)>,
}

impl ReasonTotals {
    /// The name that results show.
    pub fn name(&self) -> Cow<'static, str> {
        self.reason.map_or("others".into(), |reason| reason.name())
    }
}

/// All exits of one vCPU so far, counted where they happen: exact, whatever was lost of
/// the stream. Later ones replace earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuTotals {
    /// Whose.
    pub vcpu: VcpuId,
    /// When it was first seen, CLOCK_MONOTONIC in nanoseconds; 0 if it never was.
    pub first_mono_ns: u64,
    /// When it last entered, CLOCK_MONOTONIC in nanoseconds.
    pub last_mono_ns: u64,
    /// How many exits.
    pub exits: u64,
    /// How many of them went to the VMM.
    pub heavy: u64,
    /// Where their time went.
    pub split: ExitSplit,
    /// Time of which nobody knows what it was, the guest's or an exit's: its thread's switches
    /// or an end of an exit were not seen.
    pub unseen_ns: u64,
    /// The longest, halts not counted. In a place of its own: every event is as large as the largest.
    pub worst: Option<Box<Exit>>,
    /// By reason, in no order.
    pub reasons: Vec<ReasonTotals>,
}
