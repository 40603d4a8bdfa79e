//! What the threads of vCPUs went through on their host, told one by one.

use crate::{Exit, SourceId};

/// Refers to a [`Vcpu`] defined earlier in the same event stream. Ids are given out in
/// order from 0, without holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VcpuId(pub u32);

/// One vCPU of one VM. A later definition of the same id replaces an earlier one: its
/// number and its VM's name may come to be known late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vcpu {
    /// How the rest of the stream calls it.
    pub id: VcpuId,
    /// Its thread.
    pub tid: u32,
    /// The process of its VMM.
    pub vmm_pid: u32,
    /// Its number in its VM; `None` where nothing told.
    pub number: Option<u32>,
    /// Tells the VMs of one process apart; 0 where no event told.
    pub vm: u64,
    /// What people call the VM.
    pub vm_name: String,
    /// Whether exits handled in the host kernel are seen: not under kvm_pvm.
    pub sees_kvm: bool,
}

/// One exit of one vCPU. It comes when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuExit {
    /// Whose.
    pub vcpu: VcpuId,
    /// The exit; its split is exact, whatever was lost of the stream.
    pub exit: Exit,
}

/// What kept a vCPU's thread from its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum VcpuIntervalKind {
    /// KVM_RUN had been left: the VMM's time, together with what interrupted it.
    Vmm = 0,
    /// The thread was off the CPU and could have run.
    Waiting = 1,
    /// The thread slept, and nobody had asked for it; the source is who woke it.
    Blocked = 2,
    /// The guest had asked to sleep: KVM polled or slept for it, up to the wake-up.
    Halted = 3,
}

impl VcpuIntervalKind {
    /// Every kind, by its number in recordings.
    pub const ALL: [VcpuIntervalKind; 4] = [
        VcpuIntervalKind::Vmm,
        VcpuIntervalKind::Waiting,
        VcpuIntervalKind::Blocked,
        VcpuIntervalKind::Halted,
    ];

    /// The kind with this number, or `None` for a number this version does not know.
    pub fn from_number(number: u8) -> Option<VcpuIntervalKind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The number of this kind in recordings.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// One interval in the life of a vCPU's thread, told when it is over and before the exit
/// that it is part of. Together with the exit's own CPUs it says on which CPU the thread
/// was, or waited, at every instant: the host's activities there and then are what it met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuInterval {
    /// Whose.
    pub vcpu: VcpuId,
    /// What kept it.
    pub kind: VcpuIntervalKind,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// The CPU on which it was at the begin: on which it waited, or had been when it fell
    /// asleep.
    pub cpu: u32,
    /// The CPU on which it went on.
    pub to_cpu: u32,
    /// Who woke it, where that is known.
    pub source: Option<SourceId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for kind in VcpuIntervalKind::ALL {
            assert_eq!(VcpuIntervalKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(VcpuIntervalKind::from_number(4), None);
    }
}
