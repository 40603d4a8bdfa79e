//! Relation of the guests' counters to this host's, by which a guest's own recording can be joined
//! with a dump.

use std::collections::BTreeMap;
use std::sync::Arc;

use vmnoise_events::{Vcpu, VcpuClock};
use vmnoise_tracer::{GateVcpuId, GuestClocks};

use super::Member;

/// Number of vCPUs whose clocks are kept, ended ones included.
const KEPT: usize = 65_536;
/// Number of clocks of one vCPU that are kept; a guest that starts or is restored has a new clock.
const EACH: usize = 16;

/// All clocks that were read.
#[derive(Debug)]
pub(crate) struct Clocks {
    guests: GuestClocks,
    /// Clocks of each vCPU, in order of time.
    seen: BTreeMap<GateVcpuId, Vec<VcpuClock>>,
}

impl Clocks {
    /// Prepares to read clocks. Needs the rights to load the program that reads them.
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

/// Converts the id for the tracer: both are numbers that no other vCPU gets.
fn event_id(vcpu: GateVcpuId) -> vmnoise_events::VcpuId {
    vmnoise_events::VcpuId(vcpu.0)
}
