//! vCPUs of a host, their clocks, and the intervals of their threads.

use crate::{Name, SourceId, VmIdentity};

/// Id of a [`Vcpu`] that was defined earlier in the same event stream. Ids are assigned in order
/// from 0, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VcpuId(pub u32);

/// One vCPU of one VM. A later definition with the same id replaces an earlier definition, because
/// the vCPU's number and the VM's name may become known late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vcpu {
    /// Id by which later events refer to this vCPU.
    pub id: VcpuId,
    /// Thread id of the vCPU.
    pub tid: u32,
    /// Process id of the VMM.
    pub vmm_pid: u32,
    /// Number of the vCPU in its VM; `None` if unknown.
    pub number: Option<u32>,
    /// Number that distinguishes the VMs of one VMM process; 0 if no event contained this number.
    pub vm: u64,
    /// Name of the VM for people.
    pub vm_name: Name,
    /// Other facts about the VM.
    pub identity: VmIdentity,
    /// Whether probes see exits that the host kernel handles (not under kvm_pvm).
    pub sees_kvm: bool,
}

/// Relation between the time-stamp counter that a vCPU's guest reads and the host's counter. A
/// later `VcpuClock` of the same vCPU replaces an earlier value.
///
/// Source: arch/x86/kvm/debugfs.c (`tsc-offset`, `tsc-scaling-ratio`,
/// `tsc-scaling-ratio-frac-bits`) and the event `kvm:kvm_write_tsc_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuClock {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// Time until which the previous relation held, CLOCK_MONOTONIC in nanoseconds. For the first
    /// relation of a vCPU: 0 if the creation of the vCPU was seen; otherwise `from_mono_ns`, unless
    /// it is known that the relation did not hold before.
    pub before_until_mono_ns: u64,
    /// Time from which this relation holds, CLOCK_MONOTONIC in nanoseconds. For the first relation
    /// of a vCPU: the time of the first reading, or of the creation. Between `before_until_mono_ns`
    /// and this time, the relation is unknown. The two times are equal if a probe saw the change.
    pub from_mono_ns: u64,
    /// Number of cycles by which the guest's counter is ahead of the host's counter, after scaling.
    pub offset_tsc: i64,
    /// Numerator of the guest counter's rate, relative to the host's: `ratio / 2^ratio_frac_bits`.
    pub ratio: u64,
    /// Number of fractional bits of `ratio`.
    pub ratio_frac_bits: u8,
}

impl VcpuClock {
    /// Returns the value of the guest's counter when the host's counter has this value; `None` if
    /// no guest can read the result.
    pub fn guest_tsc(&self, host_tsc: u64) -> Option<u64> {
        let scaled = u128::from(host_tsc) * u128::from(self.ratio);
        let scaled = scaled.checked_shr(self.ratio_frac_bits.into())?;
        u64::try_from(i128::try_from(scaled).ok()? + i128::from(self.offset_tsc)).ok()
    }
}

/// Reason why a vCPU's thread was not in its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum VcpuIntervalKind {
    /// The thread was in the VMM, outside KVM_RUN. Interruptions of the VMM are part of the
    /// interval.
    Vmm = 0,
    /// The thread was runnable but off the CPU.
    Waiting = 1,
    /// The thread slept although its guest had not asked to sleep. The source is the task that woke
    /// the thread.
    Blocked = 2,
    /// The guest had asked to sleep. KVM polled or slept until the wake-up of the guest.
    Halted = 3,
}

impl VcpuIntervalKind {
    /// Every kind, ordered by its number in recordings.
    pub const ALL: [VcpuIntervalKind; 4] = [
        VcpuIntervalKind::Vmm,
        VcpuIntervalKind::Waiting,
        VcpuIntervalKind::Blocked,
        VcpuIntervalKind::Halted,
    ];

    /// Returns the kind with this number, or `None` if this version does not know the number.
    pub fn from_number(number: u8) -> Option<VcpuIntervalKind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the number of this kind in recordings.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// One interval in which a vCPU's thread was not in its guest. The event is reported after the end
/// of the interval and before the exit that contains it.
///
/// The CPUs of the exit and of these intervals give the thread's CPU at every instant: where the
/// thread ran or waited. The activities of the host on this CPU at the same time are those that
/// affected the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuInterval {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// Reason why the thread was not in its guest.
    pub kind: VcpuIntervalKind,
    /// Start, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// CPU at the start of the interval. The thread waited on this CPU, or ran on it before it
    /// slept.
    pub cpu: u32,
    /// CPU on which the thread continued after the interval.
    pub to_cpu: u32,
    /// Task that woke the thread, if known.
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
