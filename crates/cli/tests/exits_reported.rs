//! Test of the exits that the tracer reports one by one for a real VM, whose CPU is taken by a
//! known task.

mod kvm {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use vmnoise_events::{
        Activity, ActivityKind, Event, LossKind, Share, Vcpu, VcpuExit, VcpuId, VcpuInterval,
        VcpuIntervalKind, VcpuTotals,
    };
    use vmnoise_host::Host;
    use vmnoise_testkit::{TestProcess, wait_until_every};
    use vmnoise_tracer::{ExitTracer, Streaming};

    use crate::guest_vm;

    /// Everything that was reported, with its definitions.
    #[derive(Default)]
    struct Reported {
        sources: Vec<String>,
        vcpus: BTreeMap<VcpuId, Vcpu>,
        /// Totals of vCPUs that have ended.
        totals: BTreeMap<VcpuId, VcpuTotals>,
        exits: Vec<VcpuExit>,
        intervals: Vec<VcpuInterval>,
        activities: Vec<Activity>,
    }

    impl Reported {
        fn take(&mut self, event: Event) {
            match event {
                Event::Source(source) => {
                    assert_eq!(source.id.0 as usize, self.sources.len());
                    self.sources.push(source.name.into());
                }
                Event::Vcpu(vcpu) => {
                    self.vcpus.insert(vcpu.id, vcpu);
                }
                Event::VcpuTotals(totals) => {
                    assert!(self.vcpus.contains_key(&totals.vcpu));
                    self.totals.insert(totals.vcpu, totals);
                }
                Event::Exit(exit) => {
                    assert!(self.vcpus.contains_key(&exit.vcpu));
                    self.exits.push(exit);
                }
                Event::VcpuInterval(interval) => {
                    assert!(self.vcpus.contains_key(&interval.vcpu));
                    self.intervals.push(interval);
                }
                Event::Activity(activity) => self.activities.push(activity),
                other => panic!("a tracer says nothing of {other:?}"),
            }
        }
    }

    fn overlap_ns(activity: &Activity, interval: &VcpuInterval) -> u64 {
        let start = activity.start_mono_ns.max(interval.start_mono_ns);
        let end = activity.end_mono_ns.min(interval.end_mono_ns);
        end.saturating_sub(start)
    }

    #[test]
    fn who_ran_while_a_vcpu_waited_is_named() {
        let cpu = *Host::here().allowed_cpus().unwrap().last().unwrap();
        let mut tracer = ExitTracer::load(64, Streaming::Exits { threshold_ns: 0 }).unwrap();
        tracer.attach().unwrap();
        tracer.count().unwrap();
        let hog = TestProcess::busy(cpu);
        let hog_name = format!("sh:{}", hog.id());
        let mut vm = guest_vm::start("io", "2s", cpu);
        let mut reported = Reported::default();
        wait_until_every(Duration::from_millis(20), "the end of the VM", || {
            tracer.drain(&mut |event| reported.take(event)).unwrap();
            vm.try_wait().unwrap().is_some()
        });
        tracer.learn(&[], Host::here().vms());
        tracer.detach().unwrap();
        tracer.drain(&mut |event| reported.take(event)).unwrap();

        let losses = tracer.losses().unwrap();
        for kind in [
            LossKind::RingFull,
            LossKind::Undecodable,
            LossKind::VcpusFull,
        ] {
            let loss = losses.iter().find(|loss| loss.kind == kind).unwrap();
            assert_eq!(loss.count, 0, "{losses:?}");
        }
        let of_vm = reported
            .vcpus
            .values()
            .filter(|vcpu| vcpu.vmm_pid == vm.id());
        let vcpu = of_vm.max_by_key(|vcpu| {
            reported
                .exits
                .iter()
                .filter(|exit| exit.vcpu == vcpu.id)
                .count()
        });
        let vcpu = vcpu.expect("the VM made exits");

        // Counted exits are equal to reported ones.
        let counted = &reported.totals[&vcpu.id];
        let exits: Vec<&VcpuExit> = reported
            .exits
            .iter()
            .filter(|it| it.vcpu == vcpu.id)
            .collect();
        assert_eq!(exits.len() as u64, counted.exits);
        for exit in &exits {
            assert_eq!(exit.exit.split.total(), exit.exit.dur_ns(), "{exit:?}");
        }
        let vmm_ns: u64 = exits.iter().map(|it| it.exit.split[Share::Vmm]).sum();
        assert_eq!(vmm_ns, counted.split[Share::Vmm]);

        // The vCPU waited for the hog, and perhaps for others.
        let waits = reported.intervals.iter().filter(|it| {
            it.vcpu == vcpu.id && it.kind == VcpuIntervalKind::Waiting && it.cpu == cpu
        });
        let threads = || {
            let threads = reported.activities.iter();
            threads.filter(|it| it.kind == ActivityKind::Thread && it.cpu == cpu)
        };
        let (mut waited_ns, mut hog_ns, mut named_ns) = (0, 0, 0);
        for wait in waits {
            waited_ns += wait.end_mono_ns - wait.start_mono_ns;
            for thread in threads() {
                let ns = overlap_ns(thread, wait);
                named_ns += ns;
                if reported.sources[thread.source.0 as usize] == hog_name {
                    hog_ns += ns;
                }
            }
        }
        println!(
            "{} exits, {} intervals, {} activities; waited {waited_ns} ns, {named_ns} named, \
             {hog_ns} of the hog; counted {} ns",
            exits.len(),
            reported.intervals.len(),
            reported.activities.len(),
            counted.split[Share::Preempted],
        );
        // Other tasks may want the CPU too, and some of their switches may not be reported.
        assert!(hog_ns > 50_000_000, "the hog was at it all the time");
        assert!(named_ns <= waited_ns && named_ns * 10 > waited_ns * 8);
    }
}
