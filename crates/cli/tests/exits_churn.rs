//! VMs that come and go faster than anybody looks: each is counted, in a table with room for few.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod kvm {
    use std::collections::BTreeMap;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use vmnoise_events::{Event, LossKind, VcpuId};
    use vmnoise_tracer::host::Host;
    use vmnoise_tracer::{ExitTracer, Streaming};

    /// VMs in all, and at a time.
    const VMS: usize = 200;
    const AT_A_TIME: usize = 2;
    /// Two VMs of a vCPU each, and those that have ended since the table was looked at: far
    /// fewer than there are VMs, and room for what else runs on this machine.
    const PLACES: u32 = 32;

    fn vm() -> Child {
        Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .args(["microvm", "--exercise", "io", "-d", "10ms"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Processes of VMMs and their vCPUs' exits.
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

    #[test]
    fn vms_that_come_and_go_are_all_counted() {
        let mut tracer = ExitTracer::load(PLACES, Streaming::Off).unwrap();
        tracer.expect(Host::here().vms()).unwrap();
        tracer.attach().unwrap();
        tracer.count().unwrap();
        let mut counted = Counted::default();
        let mut pids = Vec::new();
        let mut running: Vec<Child> = Vec::new();
        while pids.len() < VMS || !running.is_empty() {
            running.retain_mut(|vm| match vm.try_wait().unwrap() {
                Some(status) => {
                    assert!(status.success(), "{status}");
                    false
                }
                None => true,
            });
            while running.len() < AT_A_TIME && pids.len() < VMS {
                let vm = vm();
                pids.push(vm.id());
                running.push(vm);
            }
            std::thread::sleep(Duration::from_millis(20));
            tracer.newcomers().unwrap();
            tracer.drain(&mut |event| counted.take(&event)).unwrap();
        }
        tracer.detach().unwrap();
        tracer.drain(&mut |event| counted.take(&event)).unwrap();

        let losses = tracer.losses().unwrap();
        assert!(losses.iter().any(|loss| loss.kind == LossKind::VcpusFull));
        assert!(losses.iter().all(|loss| loss.count == 0), "{losses:?}");
        let missed = pids.iter().filter(|&&pid| counted.of_process(pid) == 0);
        assert_eq!(missed.count(), 0, "of {VMS}");
    }
}
