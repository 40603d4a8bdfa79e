//! A gap in CPU time, as a workload observed it.

/// One gap, stamped by the workload itself. `start_tsc` is the last reading before the gap and
/// `end_tsc` the first one after it, both on the host's TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The CPU whose time is missing.
    pub cpu: u32,
    /// Last reading before the gap.
    pub start_tsc: u64,
    /// First reading after the gap.
    pub end_tsc: u64,
    /// Advance of the hypervisor's steal clock since the previous gap.
    pub steal_ns: u64,
    /// Number of times that the hypervisor reloaded the vCPU since the previous gap.
    pub reloads: u32,
    /// Exits handled in the host kernel since the previous gap, as the workload saw them; 0 if the
    /// run's probes cannot see exits.
    pub light_exits: u32,
    /// Exits that went to the VMM since the previous gap; 0 under the same condition.
    pub heavy_exits: u32,
    /// Number of interferences that began between the two readings. The workload's thread reads
    /// this counter together with its clock; `None` if there is no counter.
    pub interference: Option<u32>,
    /// Run delay of the workload's thread during the gap, in nanoseconds, from the scheduler's own
    /// count (/proc/PID/task/TID/schedstat); 0 if the run does not read it.
    pub run_delay_ns: u64,
}
