//! Test of programs that stay loaded and follow one VM after the other: the data on each VM are
//! complete, and contain no other VM.

mod kvm {
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use vmnoise_events::{Event, LossKind, VcpuId};
    use vmnoise_host::{Host, VmProcess};
    use vmnoise_tracer::{ExitTracer, Streaming};

    use crate::guest_vm;

    const STRETCH: Duration = Duration::from_millis(300);

    /// Follows this VM for a while. Returns the processes of all vCPUs by their ids, the number of
    /// exits, both reported and counted, and the number of sources.
    fn stretch(tracer: &mut ExitTracer, vm: VmProcess) -> (Vec<u32>, u64, u64) {
        let (mut processes, mut told, mut sources) = (Vec::new(), 0, 0);
        let mut take = |event: Event| match event {
            Event::Vcpu(vcpu) if vcpu.id.0 as usize == processes.len() => {
                processes.push(vcpu.vmm_pid);
            }
            Event::Vcpu(vcpu) => assert_eq!(processes[vcpu.id.0 as usize], vcpu.vmm_pid),
            Event::Source(source) => {
                assert_eq!(source.id.0, sources);
                sources += 1;
            }
            Event::Exit(exit) => {
                assert_eq!(exit.vcpu, VcpuId(0));
                told += 1;
            }
            _ => {}
        };
        tracer.follow(vm).unwrap();
        tracer.attach().unwrap();
        tracer.count().unwrap();
        for _ in 0..10 {
            sleep(STRETCH / 10);
            tracer.newcomers().unwrap();
            tracer.drain(&mut take).unwrap();
        }
        tracer.detach().unwrap();
        sleep(Duration::from_millis(50));
        tracer.drain(&mut take).unwrap();
        // Some kernels hide switches (docs/design.md), and report ends without a beginning.
        let mut losses = tracer.losses().unwrap();
        losses.retain(|loss| loss.kind != LossKind::Unpaired);
        assert!(losses.iter().all(|loss| loss.count == 0), "{losses:?}");
        let counted = tracer.read().unwrap();
        let counted = counted.iter().map(|(_, totals)| totals.exits).sum();
        (processes, told, counted)
    }

    #[test]
    fn one_vm_after_the_other_is_told_of_whole_and_alone() {
        let cpus = Host::here().allowed_cpus().unwrap();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let guests = [first, last, last].map(|cpu| guest_vm::start("io", "60s", cpu));
        let vms = guests.each_ref().map(guest_vm::found);
        let mut tracer = ExitTracer::load(8, Streaming::Stretches).unwrap();
        let mut cost_ns = 0;
        for vm in [&vms[0], &vms[1], &vms[2], &vms[0]] {
            let begin = Instant::now();
            let (processes, told, counted) = stretch(&mut tracer, vm.clone());
            let wall_ns = begin.elapsed().as_nanos() as u64;
            assert_eq!(processes, [vm.pid]);
            println!("{} exits of {}", told, vm.pid);
            // The VM exits thousands of times a second while it runs, and two VMs share a CPU.
            assert!(told > 100, "{told}");
            assert_eq!(told, counted);
            // An exit runs two programs at least, and no CPU reads its clock in less than 5 ns.
            let cost = tracer.probe_ns().unwrap() - cost_ns;
            println!("{cost} ns, {} an exit", cost / told);
            assert!(
                cost > told * 10 && cost < wall_ns * cpus.len() as u64,
                "{cost} ns"
            );
            cost_ns += cost;
        }
        // Nothing is attached any more, so nothing costs CPU time.
        sleep(STRETCH);
        assert_eq!(tracer.probe_ns().unwrap(), cost_ns);
    }
}
