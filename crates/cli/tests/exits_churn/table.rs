//! Test of the table of vCPUs, with fewer places than vCPUs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use vmnoise_events::{Event, LossKind, VcpuId};
use vmnoise_host::Host;
use vmnoise_tracer::{ExitTracer, Streaming};

use super::vms::come_and_go;

const VMS: usize = 200;
const AT_A_TIME: usize = 2;
/// Number of places: enough for two VMs with one vCPU each, for those that have ended since the
/// last look, and for other VMs of this machine, but far fewer than VMs in total.
const PLACES: u32 = 32;

/// Processes of the VMMs, and the exits of their vCPUs.
#[derive(Default)]
struct Counted {
    processes: BTreeMap<VcpuId, u32>,
    exits: BTreeMap<VcpuId, u64>,
}

impl Counted {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Vcpu(vcpu) => {
                assert!(vcpu.id.0 as usize <= self.processes.len(), "a hole");
                self.processes.insert(vcpu.id, vcpu.vmm_pid);
            }
            Event::VcpuTotals(totals) => {
                let earlier = self.exits.insert(totals.vcpu, totals.exits);
                assert_eq!(earlier, None, "the last totals come once");
            }
            other => panic!("nothing else is told: {other:?}"),
        }
    }

    fn of_process(&self, pid: u32) -> u64 {
        let its = self
            .processes
            .iter()
            .filter(|(_, process)| **process == pid);
        its.filter_map(|(id, _)| self.exits.get(id)).sum()
    }
}

pub fn counts_more_vms_than_it_has_places() {
    let mut tracer = ExitTracer::load(PLACES, Streaming::Off).unwrap();
    tracer.expect(Host::here().vms()).unwrap();
    tracer.attach().unwrap();
    tracer.count().unwrap();
    let mut counted = Counted::default();
    let come = AtomicUsize::new(0);
    let more = || come.fetch_add(1, Ordering::Relaxed) < VMS;
    let gone = come_and_go(AT_A_TIME, more, || {
        tracer.newcomers().unwrap();
        tracer.drain(&mut |event| counted.take(&event)).unwrap();
    });
    tracer.detach().unwrap();
    tracer.drain(&mut |event| counted.take(&event)).unwrap();

    let losses = tracer.losses().unwrap();
    assert!(losses.iter().any(|loss| loss.kind == LossKind::VcpusFull));
    // A kernel may hide switches (docs/design.md); an exit in progress then belongs to no vCPU.
    let mut others = losses.iter().filter(|loss| loss.kind != LossKind::Unpaired);
    assert!(others.all(|loss| loss.count == 0), "{losses:?}");
    let missed = gone.iter().filter(|vm| counted.of_process(vm.pid) == 0);
    assert_eq!(missed.count(), 0, "of {VMS}");
}
