//! States of a vCPU's thread.

/// State of a vCPU's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum VcpuThreadState {
    /// The state is unknown: before the first event of the vCPU, or after a missed event.
    Unseen,
    /// The vCPU's thread has a CPU, in its guest, in KVM or in the VMM.
    Running,
    /// The vCPU could run, but has no CPU.
    Waiting,
    /// The vCPU is asleep because its guest wants to sleep.
    Halted,
    /// The vCPU is asleep inside KVM, although its guest does not want to sleep. It waits for a
    /// missing page or for a lock, for instance.
    Blocked,
    /// The vCPU's thread is asleep in the VMM.
    InVmm,
    /// The vCPU's thread is asleep, and KVM's structures do not show why.
    Asleep,
    /// The vCPU's thread has ended.
    Ended,
}

impl VcpuThreadState {
    /// All states.
    pub const ALL: [VcpuThreadState; 8] = [
        VcpuThreadState::Unseen,
        VcpuThreadState::Running,
        VcpuThreadState::Waiting,
        VcpuThreadState::Halted,
        VcpuThreadState::Blocked,
        VcpuThreadState::InVmm,
        VcpuThreadState::Asleep,
        VcpuThreadState::Ended,
    ];
}
