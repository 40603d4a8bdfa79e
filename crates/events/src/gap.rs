//! A hole in CPU time as a workload observed it.

/// One hole, stamped by the workload itself. `start_tsc` is the last reading
/// before the hole and `end_tsc` the first one after it, both on the host's TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The CPU whose time is missing.
    pub cpu: u32,
    /// Last reading before the hole.
    pub start_tsc: u64,
    /// First reading after the hole.
    pub end_tsc: u64,
    /// How far the hypervisor's steal clock advanced since the gap before.
    pub steal_ns: u64,
    /// How often the hypervisor reloaded the vCPU since the gap before.
    pub reloads: u32,
    /// Exits handled in the host kernel since the gap before, as the workload saw
    /// them; 0 where the run's witnesses cannot see them.
    pub light_exits: u32,
    /// Exits that went to the VMM since the gap before; the same rule.
    pub heavy_exits: u32,
    /// Interferences that began between the two readings, by the counter that the
    /// workload's thread reads together with its clock; `None` where it has none.
    pub interference: Option<u32>,
    /// How long the workload's thread waited for its CPU in the hole, by the scheduler's own count
    /// (/proc/PID/task/TID/schedstat), in nanoseconds; 0 where the run's witnesses cannot see it.
    pub run_delay_ns: u64,
}
