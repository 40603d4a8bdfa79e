//! State of one vCPU that its thread shares with the draining thread.

use std::sync::Arc;

use vmnoise_events::{CpuTally, Event, Gap};

use super::GuestClock;
use super::stats::VcpuStat;
use super::vcpu::GuestVcpu;
use super::vm::MicrovmMemory;
use crate::mailbox::{Mailbox, SharedPage};
use crate::shared_state::SharedState;
use crate::{Error, thread};

/// Memory of the guest, and facts that are known from the set-up of one vCPU.
#[derive(Debug)]
pub struct GuestState {
    vm: Arc<MicrovmMemory>,
    index: usize,
    pub clock: GuestClock,
    steal_clock: bool,
    exit_stat: Option<VcpuStat>,
}

impl GuestState {
    /// Creates the state of a vCPU of this VM after its set-up. `exit_stat` is KVM's counter of its
    /// exits.
    pub fn new(
        vm: Arc<MicrovmMemory>,
        vcpu: &GuestVcpu,
        exit_stat: Option<VcpuStat>,
    ) -> GuestState {
        GuestState {
            vm,
            index: vcpu.index,
            clock: vcpu.clock,
            steal_clock: vcpu.steal_clock,
            exit_stat,
        }
    }
}

impl SharedState for GuestState {
    fn mailbox(&self) -> &Mailbox {
        self.vm.memory.mailbox(self.index)
    }

    fn known(&self) -> SharedPage {
        SharedPage {
            steal_clock: self.steal_clock,
            reloads: self.steal_clock,
            interference: false,
            run_delay: false,
        }
    }

    fn drain(&self, cpu: u32, sink: &mut dyn FnMut(Event)) {
        let ring = self.vm.memory.ring(self.index);
        self.mailbox().drain(ring, |record| {
            let gap = record.gap(cpu, self.known());
            sink(Event::Gap(Gap {
                start_tsc: self.clock.to_host(gap.start_tsc),
                end_tsc: self.clock.to_host(gap.end_tsc),
                ..gap
            }));
        });
    }

    /// Leaves `light_exits`, `heavy_exits` and `outer_steal_ns` unknown, because only the tracer
    /// knows them.
    fn tally(&self, cpu: u32) -> CpuTally {
        let mut tally = self.mailbox().tally(cpu, self.known());
        if tally.first_tsc > 0 {
            tally.first_tsc = self.clock.to_host(tally.first_tsc);
            tally.last_tsc = self.clock.to_host(tally.last_tsc);
        }
        tally.kvm_stat_exits = self.exit_stat.as_ref().and_then(VcpuStat::read);
        tally
    }

    /// Converts the deadline to the guest's clock. `u64::MAX` means never, on any clock.
    fn set_deadline(&self, deadline_tsc: u64) {
        let guest_tsc = match deadline_tsc {
            u64::MAX => u64::MAX,
            host_tsc => self.clock.to_guest(host_tsc),
        };
        self.mailbox().set_deadline(guest_tsc);
    }

    /// The host checks the CPU, because the guest cannot know on which CPU it runs.
    fn check_cpu(&self, tid: u32, cpu: u32) -> Result<(), Error> {
        Ok(thread::still_pinned(tid, cpu)?)
    }
}
