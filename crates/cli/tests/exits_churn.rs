//! VMs that come and go faster than anybody looks: each is counted, in a table with room for few.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// VMs at a time.
const AT_A_TIME: usize = 2;

fn vmnoise(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.args(words.split(' '));
    command
}

/// Runs so many VMs, and looks around in between. Tells the processes of their VMMs.
fn come_and_go(vms: usize, mut meanwhile: impl FnMut()) -> Vec<u32> {
    let vm = || {
        let mut vm = vmnoise("microvm --exercise io -d 10ms");
        vm.stdout(Stdio::null()).spawn().unwrap()
    };
    let mut pids = Vec::new();
    let mut running: Vec<Child> = Vec::new();
    while pids.len() < vms || !running.is_empty() {
        running.retain_mut(|vm| match vm.try_wait().unwrap() {
            Some(status) => {
                assert!(status.success(), "{status}");
                false
            }
            None => true,
        });
        while running.len() < AT_A_TIME && pids.len() < vms {
            running.extend([vm()]);
            pids.extend(running.last().map(Child::id));
        }
        std::thread::sleep(Duration::from_millis(5));
        meanwhile();
    }
    pids
}

mod kvm {
    use std::collections::BTreeMap;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use serde_json::Value;
    use vmnoise_events::{Event, LossKind, VcpuId};
    use vmnoise_tracer::host::Host;
    use vmnoise_tracer::{ExitTracer, Streaming};

    use super::{come_and_go, vmnoise};

    const VMS: usize = 200;
    /// Two VMs of a vCPU each, and those that have ended since the table was looked at: far
    /// fewer than there are VMs, and room for what else runs on this machine.
    const PLACES: u32 = 32;

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
        let pids = come_and_go(VMS, || {
            tracer.newcomers().unwrap();
            tracer.drain(&mut |event| counted.take(&event)).unwrap();
        });
        tracer.detach().unwrap();
        tracer.drain(&mut |event| counted.take(&event)).unwrap();

        let losses = tracer.losses().unwrap();
        assert!(losses.iter().any(|loss| loss.kind == LossKind::VcpusFull));
        // A kernel may hide switches (docs/design.md): an exit in progress then is nobody's.
        let mut others = losses.iter().filter(|loss| loss.kind != LossKind::Unpaired);
        assert!(others.all(|loss| loss.count == 0), "{losses:?}");
        let missed = pids.iter().filter(|&&pid| counted.of_process(pid) == 0);
        assert_eq!(missed.count(), 0, "of {VMS}");
    }

    /// A minute of them, beside `vmnoise exits` as anybody runs it.
    #[test]
    fn a_host_on_which_1200_vms_come_and_go_counts_them_all() {
        const VMS: usize = 1_200;
        let mut exits = vmnoise("exits -q -d 30m --format json");
        let exits = exits.stdout(Stdio::piped()).spawn().unwrap();
        let pid = exits.id().to_string();
        // Its programs are attached by then.
        std::thread::sleep(Duration::from_secs(2));
        let begun = Instant::now();
        let pids = come_and_go(VMS, || {});
        println!("{VMS} VMs in {:?}", begun.elapsed());
        let stopped = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(stopped.success());
        let output = exits.wait_with_output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();

        // A kernel may hide switches: an exit in progress then is nobody's.
        let losses = told["losses"].as_object().unwrap().iter();
        let mut others = losses.filter(|(kind, _)| *kind != "unpaired");
        assert!(others.all(|(_, count)| count == 0), "{}", told["losses"]);
        let vms = told["vms"].as_array().unwrap();
        let is_counted = |pid: &&u32| vms.iter().any(|vm| vm["vm"] == **pid);
        assert_eq!(pids.iter().filter(is_counted).count(), VMS);
    }
}
