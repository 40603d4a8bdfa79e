//! Clocks of guests, for programs that do not count exits.

use vmnoise_events::{Vcpu, VcpuClock};

use super::clocks::{ClockLook, Clocks};
use crate::VmSearch;

/// The clocks at the last reading of KVM's state. If a clock changed between two readings, the
/// instant of the change is unknown.
#[derive(Debug)]
pub struct GuestClocks {
    search: VmSearch,
    clocks: Clocks,
}

impl GuestClocks {
    /// Loads the BPF program that finds the clocks. Call it before rights are dropped. If the
    /// program cannot be loaded, the clocks come from debugfs.
    pub fn here() -> GuestClocks {
        GuestClocks {
            search: VmSearch::here(),
            clocks: Clocks::default(),
        }
    }

    /// Reads the clocks of the guests of these vCPUs. Returns the clocks that are new or have
    /// changed since the last reading. Times are CLOCK_MONOTONIC in ns. vCPUs that are not in
    /// `vcpus` are forgotten.
    pub fn look(&mut self, vcpus: &[Vcpu]) -> Vec<VcpuClock> {
        let mut processes: Vec<u32> = vcpus.iter().map(|vcpu| vcpu.vmm_pid).collect();
        processes.sort_unstable();
        processes.dedup();
        let look = ClockLook::over(&self.search, &processes);
        self.clocks.keep(vcpus);
        self.clocks.look(vcpus, &look, &[])
    }
}
