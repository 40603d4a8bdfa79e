//! A time in which a workload did not have its CPU, as the workload observed it.

/// One gap. The workload itself stamps the gap with two consecutive readings of its clock,
/// `start_tsc` and `end_tsc`, both on the host's TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// CPU on which the workload did not run.
    pub cpu: u32,
    /// Last reading of the clock before the gap, in TSC cycles.
    pub start_tsc: u64,
    /// First reading of the clock after the gap, in TSC cycles.
    pub end_tsc: u64,
    /// Advance of the hypervisor's steal clock since the previous gap, in nanoseconds.
    pub steal_ns: u64,
    /// Number of times that the hypervisor reloaded the vCPU since the previous gap.
    pub reloads: u32,
    /// Number of exits since the previous gap that the host kernel handled, as the workload saw
    /// them; 0 if the run's probes cannot see exits.
    pub light_exits: u32,
    /// Number of exits since the previous gap that the VMM handled; 0 if the run's probes cannot
    /// see exits.
    pub heavy_exits: u32,
    /// Number of interferences that began between `start_tsc` and `end_tsc`; `None` if there is no
    /// counter. The workload's thread reads the counter together with its clock.
    pub interference: Option<u32>,
    /// Run delay of the workload's thread during the gap, in nanoseconds, as the scheduler counts
    /// it (/proc/PID/task/TID/schedstat); 0 if the run does not read the count.
    pub run_delay_ns: u64,
}
