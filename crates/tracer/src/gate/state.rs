//! What the thread of a vCPU does.

/// What the thread of a vCPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum VcpuState {
    /// Not known: before its first event, or an event was missed.
    Unseen,
    /// It has a CPU, in its guest, in KVM or in the VMM.
    Running,
    /// It could run, and has no CPU.
    Waiting,
    /// Asleep at its guest's wish.
    Halted,
    /// Asleep inside of KVM, unasked: a page that is not there, a lock.
    Blocked,
    /// Asleep in the VMM.
    InVmm,
    /// Asleep, and KVM's structures do not say why.
    Asleep,
    /// It is no more.
    Ended,
}

impl VcpuState {
    /// All of them.
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
