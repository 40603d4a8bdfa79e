//! The clocks of guests whose exits are not counted.

use vmnoise_events::{Vcpu, VcpuClock};

use super::clocks::{ClockLook, Clocks};
use crate::VmSearch;

/// The clocks in KVM at the last reading. It is unknown when a clock changed between two readings.
#[derive(Debug)]
pub struct GuestClocks {
    search: VmSearch,
    clocks: Clocks,
}

impl GuestClocks {
    /// Loads the BPF program that finds the clocks, which needs rights. If the program cannot be
    /// loaded, the clocks come from debugfs.
    pub fn here() -> GuestClocks {
        GuestClocks {
            search: VmSearch::here(),
            clocks: Clocks::default(),
        }
    }

    /// Reads the clocks of the guests of these vCPUs, which must be all vCPUs. Returns the clocks
    /// that have changed since the last reading, with times of CLOCK_MONOTONIC in ns.
    pub fn look(&mut self, vcpus: &[Vcpu]) -> Vec<VcpuClock> {
        let mut processes: Vec<u32> = vcpus.iter().map(|vcpu| vcpu.vmm_pid).collect();
        processes.sort_unstable();
        processes.dedup();
        let look = ClockLook::over(&self.search, &processes);
        self.clocks.keep(vcpus);
        self.clocks.look(vcpus, &look, &[])
    }
}
