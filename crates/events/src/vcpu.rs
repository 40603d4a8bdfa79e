//! What the threads of vCPUs went through on their host, told one by one.

use crate::{Name, SourceId, VmIdentity};

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
    /// Its number in its VM; `None` where nothing said so.
    pub number: Option<u32>,
    /// Distinguishes the VMs of one process; 0 where no event said.
    pub vm: u64,
    /// What people call the VM.
    pub vm_name: Name,
    /// What else is known of the VM.
    pub identity: VmIdentity,
    /// Whether exits handled in the host kernel are seen: not under kvm_pvm.
    pub sees_kvm: bool,
}

/// How the time-stamp counter that the guest of a vCPU reads follows from its host's. A later
/// one of the same vCPU replaces an earlier one.
///
/// Source: arch/x86/kvm/debugfs.c (`tsc-offset`, `tsc-scaling-ratio`,
/// `tsc-scaling-ratio-frac-bits`) and the event `kvm:kvm_write_tsc_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuClock {
    /// Whose.
    pub vcpu: VcpuId,
    /// Until this instant the clock before it held, CLOCK_MONOTONIC in nanoseconds. Of a
    /// vCPU's first clock the same as `from_mono_ns` where nothing says that it did not hold
    /// before, and 0 where it was seen being made.
    pub before_until_mono_ns: u64,
    /// From this instant on it holds, CLOCK_MONOTONIC in nanoseconds. Of a first clock: when it
    /// was first read, or made. Which clock holds between the two is not known; they are the
    /// same where the change was witnessed.
    pub from_mono_ns: u64,
    /// Cycles that the guest's counter is ahead of the scaled host's.
    pub offset_tsc: i64,
    /// The guest's counter runs at `ratio / 2^ratio_frac_bits` of the host's rate.
    pub ratio: u64,
    /// See `ratio`.
    pub ratio_frac_bits: u8,
}

impl VcpuClock {
    /// The guest's counter at this reading of the host's; `None` where it has none that a
    /// guest could read.
    pub fn guest_tsc(&self, host_tsc: u64) -> Option<u64> {
        let scaled = u128::from(host_tsc) * u128::from(self.ratio);
        let scaled = scaled.checked_shr(self.ratio_frac_bits.into())?;
        u64::try_from(i128::try_from(scaled).ok()? + i128::from(self.offset_tsc)).ok()
    }
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
    fn a_guest_reads_its_host_scaled_and_then_ahead() {
        let mut clock = VcpuClock {
            vcpu: VcpuId(0),
            before_until_mono_ns: 0,
            from_mono_ns: 0,
            offset_tsc: -1_000,
            ratio: 3 << 31,
            ratio_frac_bits: 32,
        };
        assert_eq!(clock.guest_tsc(1_000), Some(500));
        assert_eq!(clock.guest_tsc(1), None);
        assert_eq!(clock.guest_tsc(u64::MAX), None);
        clock.ratio_frac_bits = 200;
        assert_eq!(clock.guest_tsc(1_000), None);
    }

    #[test]
    fn numbers_round_trip() {
        for kind in VcpuIntervalKind::ALL {
            assert_eq!(VcpuIntervalKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(VcpuIntervalKind::from_number(4), None);
    }
}
