//! The clocks of guests whose exits nobody counts.

use vmnoise_events::{Vcpu, VcpuClock};

use super::clocks::{ClockLook, Clocks};
use crate::VmSearch;

/// What KVM had of them at one look after the other. When a clock changed in between is not known.
#[derive(Debug)]
pub struct GuestClocks {
    search: VmSearch,
    clocks: Clocks,
}

impl GuestClocks {
    /// Loads the program that finds them, with the rights that this takes; where it cannot be, debugfs is read.
    pub fn here() -> GuestClocks {
        GuestClocks {
            search: VmSearch::here(),
            clocks: Clocks::default(),
        }
    }

    /// Takes a look at the guests of these vCPUs, which are all that there are, and returns the clocks that are not
    /// as they were at the look before; CLOCK_MONOTONIC in nanoseconds.
    pub fn look(&mut self, vcpus: &[Vcpu]) -> Vec<VcpuClock> {
        let mut processes: Vec<u32> = vcpus.iter().map(|vcpu| vcpu.vmm_pid).collect();
        processes.sort_unstable();
        processes.dedup();
        let look = ClockLook::over(&self.search, &processes);
        self.clocks.keep(vcpus);
        self.clocks.look(vcpus, &look, &[])
    }
}
