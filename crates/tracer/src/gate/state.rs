//! States of a vCPU's thread.

/// State of a vCPU's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum VcpuState {
    /// Unknown: before its first event, or an event was missed.
    Unseen,
    /// It has a CPU, in its guest, in KVM or in the VMM.
    Running,
    /// It could run, and has no CPU.
    Waiting,
    /// It is asleep because its guest wants to sleep.
    Halted,
    /// It is asleep inside KVM though its guest does not want to sleep: for a missing page, or a
    /// lock.
    Blocked,
    /// It is asleep in the VMM.
    InVmm,
    /// It is asleep, and KVM's structures do not show why.
    Asleep,
    /// Its thread has ended.
    Ended,
}

impl VcpuState {
    /// All states.
    pub const ALL: [VcpuState; 8] = [
        VcpuState::Unseen,
        VcpuState::Running,
        VcpuState::Waiting,
        VcpuState::Halted,
        VcpuState::Blocked,
        VcpuState::InVmm,
        VcpuState::Asleep,
        VcpuState::Ended,
    ];
}
