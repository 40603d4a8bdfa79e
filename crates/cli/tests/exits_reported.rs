//! Test of the exits that the tracer reports one by one for a real VM, whose CPU is taken by a
//! known task.

mod kvm {
    use std::collections::BTreeMap;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use vmnoise_events::{
        Activity, ActivityKind, Event, LossKind, Share, Vcpu, VcpuExit, VcpuId, VcpuInterval,
        VcpuIntervalKind, VcpuTotals,
    };
    use vmnoise_host::Host;
    use vmnoise_tracer::{ExitTracer, Streaming};

    /// Task that keeps one CPU busy until it is killed.
    struct Hog(Child);

    impl Hog {
        fn on(cpu: u32) -> Hog {
            let cpu = cpu.to_string();
            let child = Command::new("taskset")
                .args(["-c", &cpu, "sh", "-c", "while :; do :; done"])
                .spawn();
            Hog(child.unwrap())
        }
    }

    impl Drop for Hog {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

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
        let hog = Hog::on(cpu);
        let hog_name = format!("sh:{}", hog.0.id());
        let mut vm = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .args([
                "microvm",
                "--exercise",
                "io",
                "-d",
                "2s",
                "-c",
                &cpu.to_string(),
            ])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut reported = Reported::default();
        let end = Instant::now() + Duration::from_secs(20);
        while vm.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "the VM does not end");
            std::thread::sleep(Duration::from_millis(20));
            tracer.drain(&mut |event| reported.take(event)).unwrap();
        }
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
