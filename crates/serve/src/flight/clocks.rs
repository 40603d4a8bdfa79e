//! How the counters of guests follow from this host's, so that a guest's own recording can be joined with a dump.

use std::collections::BTreeMap;
use std::sync::Arc;

use vmnoise_events::{Vcpu, VcpuClock};
use vmnoise_tracer::{GuestClocks, VcpuId};

use super::Member;

/// vCPUs whose clocks are kept, those that have ended too.
const KEPT: usize = 65_536;
/// Clocks of one vCPU that are kept: each is a guest that was started or restored anew.
const EACH: usize = 16;

/// All that was seen of them.
#[derive(Debug)]
pub(crate) struct Clocks {
    guests: GuestClocks,
    /// In their order.
    seen: BTreeMap<VcpuId, Vec<VcpuClock>>,
}

impl Clocks {
    /// With the rights that the program takes which reads them.
    pub(crate) fn here() -> Clocks {
        Clocks {
            guests: GuestClocks::here(),
            seen: BTreeMap::new(),
        }
    }

    /// Takes a look at the guests of all vCPUs that there are.
    pub(crate) fn look(&mut self, present: &[(VcpuId, Arc<Member>)]) {
        let vcpus = present
            .iter()
            .map(|(id, member)| member.vcpu(event_id(*id)));
        let vcpus: Vec<Vcpu> = vcpus.collect();
        for clock in self.guests.look(&vcpus) {
            let id = VcpuId(clock.vcpu.0);
            let clocks = self.seen.entry(id).or_default();
            if clocks.len() == EACH {
                clocks.remove(0);
            }
            clocks.push(clock);
            if self.seen.len() > KEPT {
                self.seen.pop_first();
            }
        }
    }

    /// Those of this vCPU's guest.
    pub(crate) fn of(&self, vcpu: VcpuId) -> Vec<VcpuClock> {
        self.seen.get(&vcpu).cloned().unwrap_or_default()
    }
}

/// As the tracer is asked: both are numbers that no other vCPU gets.
fn event_id(vcpu: VcpuId) -> vmnoise_events::VcpuId {
    vmnoise_events::VcpuId(vcpu.0)
}
