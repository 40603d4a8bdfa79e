//! Relation of each guest's clock to this host's clock. By this relation, a recording that was made
//! inside a guest can be joined with a dump.

use std::collections::BTreeMap;
use std::sync::Arc;

use vmnoise_events::{Vcpu, VcpuClock};
use vmnoise_tracer::{GateVcpuId, GuestClocks};

use super::Member;

/// Largest number of vCPUs whose clocks are kept. Ended vCPUs are included.
const KEPT: usize = 65_536;
/// Largest number of clocks that are kept of one vCPU. A guest gets a new clock when it starts or
/// is restored.
const EACH: usize = 16;

/// All clocks that were read so far.
#[derive(Debug)]
pub(crate) struct Clocks {
    guests: GuestClocks,
    /// Clocks of each vCPU's guest, ordered by time.
    seen: BTreeMap<GateVcpuId, Vec<VcpuClock>>,
}

impl Clocks {
    /// Loads the program that reads clocks. This process must still have the rights for loading.
    pub(crate) fn here() -> Clocks {
        Clocks {
            guests: GuestClocks::here(),
            seen: BTreeMap::new(),
        }
    }

    /// Reads the clocks of the guests of all present vCPUs.
    pub(crate) fn look(&mut self, present: &[(GateVcpuId, Arc<Member>)]) {
        let vcpus = present
            .iter()
            .map(|(id, member)| member.vcpu(event_id(*id)));
        let vcpus: Vec<Vcpu> = vcpus.collect();
        for clock in self.guests.look(&vcpus) {
            let id = GateVcpuId(clock.vcpu.0);
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

    /// Returns the clocks of this vCPU's guest.
    pub(crate) fn of(&self, vcpu: GateVcpuId) -> Vec<VcpuClock> {
        self.seen.get(&vcpu).cloned().unwrap_or_default()
    }
}

/// Converts the gate's id of a vCPU to an id of an event. Both ids are unique to the vCPU.
fn event_id(vcpu: GateVcpuId) -> vmnoise_events::VcpuId {
    vmnoise_events::VcpuId(vcpu.0)
}
