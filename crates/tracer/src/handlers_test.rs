//! Drives the BPF handlers with given streams: every value and every instant comes
//! from the test, none from the machine.

mod root {
    use std::{
        os::fd::AsFd,
        sync::{Arc, Mutex},
    };

    use libbpf_rs::{
        MapCore, Object, ObjectBuilder, ProgramInput, RingBuffer, RingBufferBuilder, libbpf_sys,
    };
    use proptest::prelude::*;
    use vmnoise_events::{ActivityKind, Event};

    use crate::{
        decode::Decoder,
        mapped::{MappedCounts, MappedCpus},
        wire::{Mode, Origin},
    };

    static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/handlers_test.bpf.o"));
    const CPUS: u32 = 8;
    const IDLE: u32 = 0;
    /// The vCPU thread of CPU n is thread VCPU + n.
    const VCPU: u32 = 100;
    const SLEEPS: u64 = 1;
    const RUNNABLE: u64 = 0;
    /// Smallest ring buffer: one page.
    const PAGE: u32 = 4096;

    /// Kind, CPU, begin, end and label of an activity.
    type Seen = (ActivityKind, u32, u64, u64, String);

    struct Handlers {
        object: Object,
        ring: RingBuffer<'static>,
        events: Arc<Mutex<Vec<Event>>>,
        cpus: MappedCpus,
        counts: MappedCounts,
    }

    impl Handlers {
        fn new(ring_bytes: u32) -> Handlers {
            let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
            let mut records = open.maps_mut().find(|map| map.name() == "records").unwrap();
            records.set_max_entries(ring_bytes).unwrap();
            let object = open.load().unwrap();
            let map = |name: &str| object.maps().find(|map| map.name() == name).unwrap();
            let cpus = MappedCpus::map(map("cpus").as_fd(), CPUS as usize).unwrap();
            let counts = MappedCounts::map(map("exits").as_fd(), CPUS as usize).unwrap();
            for cpu in 0..CPUS {
                cpus.set_vcpu(cpu, VCPU + cpu);
                cpus.set_mode(cpu, Mode::VMNOISE_MEASURED);
            }
            let events = Arc::new(Mutex::new(Vec::new()));
            let filled = Arc::clone(&events);
            let mut decoder = Decoder::default();
            let mut ring = RingBufferBuilder::new();
            let records = map("records");
            ring.add(&records, move |bytes| {
                decoder.decode(bytes, &mut |event| filled.lock().unwrap().push(event));
                0
            })
            .unwrap();
            let ring = ring.build().unwrap();
            Handlers {
                object,
                ring,
                events,
                cpus,
                counts,
            }
        }

        fn run(&self, program: &str, cpu: u32, now_ns: u64, values: &[u64]) {
            let mut context = [0_u64; 12];
            context[0] = u64::from(cpu);
            context[1] = now_ns;
            context[2..2 + values.len()].copy_from_slice(values);
            let mut bytes: Vec<u8> = context.into_iter().flat_map(u64::to_ne_bytes).collect();
            let input = ProgramInput {
                context_in: Some(&mut bytes),
                flags: libbpf_sys::BPF_F_TEST_RUN_ON_CPU,
                ..ProgramInput::default()
            };
            let program = self
                .object
                .progs_mut()
                .find(|it| it.name() == program)
                .unwrap();
            program.test_run(input).unwrap();
        }

        fn irq_entry(&self, cpu: u32, now_ns: u64, vector: u32, name: &str) {
            let source = source(Origin::VMNOISE_FROM_VECTOR, vector, name);
            self.run("test_irq_entry", cpu, now_ns, &source);
        }

        fn irq_exit(&self, cpu: u32, now_ns: u64, vector: u32) {
            let source = source(Origin::VMNOISE_FROM_VECTOR, vector, "");
            self.run("test_irq_exit", cpu, now_ns, &source);
        }

        fn softirq_entry(&self, cpu: u32, now_ns: u64, number: u64) {
            self.run("test_softirq_entry", cpu, now_ns, &[number]);
        }

        fn softirq_exit(&self, cpu: u32, now_ns: u64, number: u64) {
            self.run("test_softirq_exit", cpu, now_ns, &[number]);
        }

        fn switch(&self, cpu: u32, now_ns: u64, prev: u32, prev_state: u64, next: u32) {
            let [id, name] = source(Origin::VMNOISE_FROM_TASK, prev, "task");
            let values = [id, name, u64::from(next), prev_state, 0];
            self.run("test_switch", cpu, now_ns, &values);
        }

        fn preempt(&self, cpu: u32, now_ns: u64, prev: u32, prev_state: u64, next: u32) {
            let [id, name] = source(Origin::VMNOISE_FROM_TASK, prev, "task");
            let values = [id, name, u64::from(next), prev_state, 1];
            self.run("test_switch", cpu, now_ns, &values);
        }

        /// Thread `waker` wakes the vCPU thread of `cpu` from `waker_cpu`.
        fn wake(&self, cpu: u32, now_ns: u64, waker: u32, waker_cpu: u32) {
            let [id, name] = source(Origin::VMNOISE_FROM_TASK, waker, "waker");
            let values = [id, name, u64::from(VCPU + cpu), u64::from(waker_cpu)];
            self.run("test_waking", cpu, now_ns, &values);
        }

        fn run_leave(&self, cpu: u32, now_ns: u64) {
            self.run("test_kvm_run_leave", cpu, now_ns, &[u64::from(VCPU + cpu)]);
        }

        fn run_enter(&self, cpu: u32, now_ns: u64) {
            let vmm = source(Origin::VMNOISE_FROM_TASK, VCPU + cpu, "vmm");
            self.run("test_kvm_run_enter", cpu, now_ns, &vmm);
        }

        fn userspace_exit(&self, cpu: u32, now_ns: u64) {
            self.run("test_userspace_exit", cpu, now_ns, &[u64::from(VCPU + cpu)]);
        }

        fn exit(&self, cpu: u32, now_ns: u64) {
            self.run("test_kvm_exit", cpu, now_ns, &[u64::from(VCPU + cpu)]);
        }

        fn entry(&self, cpu: u32, now_ns: u64) {
            self.run("test_kvm_entry", cpu, now_ns, &[u64::from(VCPU + cpu)]);
        }

        fn seen(&self) -> Vec<Seen> {
            self.ring.consume().unwrap();
            let mut names = Vec::new();
            let mut seen = Vec::new();
            for event in self.events.lock().unwrap().iter() {
                match event {
                    Event::Source(source) => names.push(source.name.clone()),
                    Event::Activity(it) => {
                        let name = names[it.source.0 as usize].clone();
                        seen.push((it.kind, it.cpu, it.start_mono_ns, it.end_mono_ns, name));
                    }
                    other => panic!("a tracer says nothing of {other:?}"),
                }
            }
            seen
        }

        #[track_caller]
        fn expect(&self, expected: &[(ActivityKind, u32, u64, u64, &str)], unpaired: u64) {
            let seen = self.seen();
            let seen: Vec<_> = seen
                .iter()
                .map(|(kind, cpu, a, b, name)| (*kind, *cpu, *a, *b, &**name))
                .collect();
            assert_eq!(seen, expected);
            assert_eq!(self.cpus.unpaired(), unpaired);
        }
    }

    /// The two context values of a source.
    fn source(origin: Origin, id: u32, name: &str) -> [u64; 2] {
        let mut letters = [0; 8];
        letters[..name.len()].copy_from_slice(name.as_bytes());
        [
            u64::from(origin.0) << 32 | u64::from(id),
            u64::from_ne_bytes(letters),
        ]
    }

    use ActivityKind::{Blocked, Exit, Irq, Nmi, Softirq, Thread, Throttled, Vmm};

    #[test]
    fn an_irq_in_a_softirq_in_a_thread() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
        it.softirq_entry(1, 1100, 3);
        it.irq_entry(1, 1200, 236, "timer");
        it.irq_entry(1, 1210, 251, "call");
        it.irq_exit(1, 1230, 251);
        it.run("test_nmi", 1, 1260, &[15]);
        it.irq_exit(1, 1300, 236);
        it.softirq_exit(1, 1500, 3);
        it.switch(1, 2000, 7, RUNNABLE, VCPU + 1);
        it.expect(
            &[
                (Irq, 1, 1210, 1230, "call:251"),
                (Nmi, 1, 1245, 1260, "NMI"),
                (Irq, 1, 1200, 1300, "timer:236"),
                (Softirq, 1, 1100, 1500, "NET_RX:3"),
                (Thread, 1, 1000, 2000, "task:7"),
            ],
            0,
        );
    }

    #[test]
    fn a_lost_irq_end_loses_one_interval() {
        let it = Handlers::new(PAGE);
        it.irq_entry(1, 100, 1, "outer");
        it.irq_entry(1, 110, 2, "lost");
        it.irq_exit(1, 200, 1);
        it.irq_entry(1, 300, 3, "next");
        it.irq_exit(1, 310, 3);
        it.expect(
            &[(Irq, 1, 100, 200, "outer:1"), (Irq, 1, 300, 310, "next:3")],
            1,
        );
    }

    #[test]
    fn a_lost_irq_begin_loses_one_interval() {
        let it = Handlers::new(PAGE);
        it.irq_exit(1, 50, 9); // in progress when tracing began: no loss
        it.irq_entry(1, 100, 1, "outer");
        it.irq_exit(1, 150, 2);
        it.irq_exit(1, 200, 1);
        it.irq_exit(1, 250, 1);
        it.expect(&[(Irq, 1, 100, 200, "outer:1")], 2);
    }

    #[test]
    fn a_switch_ends_the_memory_of_lost_ends() {
        let it = Handlers::new(PAGE);
        it.irq_entry(1, 100, 1, "lost");
        it.softirq_entry(1, 110, 1);
        it.switch(1, 200, VCPU + 1, RUNNABLE, 7);
        it.irq_exit(1, 300, 1);
        it.expect(&[], 3);
    }

    #[test]
    fn nesting_deeper_than_the_stack_is_counted() {
        let it = Handlers::new(PAGE);
        for depth in 0..10 {
            it.irq_entry(1, 100 + u64::from(depth), depth, "irq");
        }
        for depth in (0..10).rev() {
            it.irq_exit(1, 200 - u64::from(depth), depth);
        }
        assert_eq!(it.seen().len(), 8);
        assert_eq!(it.cpus.unpaired(), 4);
    }

    #[test]
    fn a_softirq_that_is_another_is_no_pair() {
        let it = Handlers::new(PAGE);
        it.softirq_exit(1, 50, 1);
        it.softirq_entry(1, 100, 1);
        it.softirq_exit(1, 200, 9);
        it.softirq_entry(1, 300, 1);
        it.softirq_entry(1, 400, 9);
        it.softirq_exit(1, 500, 9);
        it.expect(&[(Softirq, 1, 400, 500, "RCU:9")], 2);
    }

    #[test]
    fn two_cpus_do_not_mix() {
        let it = Handlers::new(PAGE);
        it.irq_entry(1, 100, 236, "timer");
        it.irq_entry(2, 110, 236, "timer");
        it.switch(3, 115, VCPU + 3, RUNNABLE, 7);
        it.irq_exit(1, 120, 236);
        it.switch(4, 125, VCPU + 4, RUNNABLE, 7);
        it.irq_exit(2, 130, 236);
        it.switch(4, 135, 7, RUNNABLE, VCPU + 4);
        it.switch(3, 145, 7, RUNNABLE, VCPU + 3);
        it.expect(
            &[
                (Irq, 1, 100, 120, "timer:236"),
                (Irq, 2, 110, 130, "timer:236"),
                (Thread, 4, 125, 135, "task:7"),
                (Thread, 3, 115, 145, "task:7"),
            ],
            0,
        );
    }

    #[test]
    fn only_measured_cpus_tell() {
        let it = Handlers::new(PAGE);
        it.cpus.set_mode(1, Mode::VMNOISE_TRACKED);
        it.cpus.set_mode(2, Mode::VMNOISE_OFF);
        for cpu in [1, 2] {
            it.irq_entry(cpu, 100, 236, "timer");
            it.irq_exit(cpu, 120, 236);
            it.irq_exit(cpu, 130, 236);
            it.softirq_entry(cpu, 140, 1);
            it.softirq_exit(cpu, 150, 1);
            it.switch(cpu, 160, VCPU + cpu, SLEEPS, 7);
            it.switch(cpu, 170, 7, RUNNABLE, VCPU + cpu);
            it.run("test_nmi", cpu, 180, &[5]);
            it.run_enter(cpu, 190);
            it.run_leave(cpu, 200);
            it.userspace_exit(cpu, 201);
            it.run_enter(cpu, 210);
        }
        it.run("test_irq_entry", CPUS, 300, &[1, 0]); // no such CPU
        it.expect(&[], 0);
        assert_eq!((it.counts.heavy(1), it.counts.heavy(2)), (0, 0));
    }

    #[test]
    fn a_sleep_with_only_idle_ends_when_the_vcpu_runs() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
        it.wake(1, 5000, 42, 3);
        it.switch(1, 5080, IDLE, RUNNABLE, VCPU + 1);
        it.expect(&[(Blocked, 1, 1000, 5080, "waker:42")], 0);
    }

    #[test]
    fn a_sleep_before_another_task_ends_at_the_wake() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
        it.wake(1, 5000, 42, 3);
        it.switch(1, 8000, 7, RUNNABLE, VCPU + 1);
        it.expect(
            &[
                (Thread, 1, 1000, 8000, "task:7"),
                (Blocked, 1, 1000, 5000, "waker:42"),
            ],
            0,
        );
    }

    #[test]
    fn a_wake_before_a_throttled_wait_splits_three_ways() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
        it.wake(1, 5000, 42, 3);
        it.switch(1, 8000, 7, SLEEPS, IDLE);
        it.switch(1, 9000, IDLE, RUNNABLE, VCPU + 1);
        it.expect(
            &[
                (Thread, 1, 1000, 8000, "task:7"),
                (Throttled, 1, 8000, 9000, "idle"),
                (Blocked, 1, 1000, 5000, "waker:42"),
            ],
            0,
        );
    }

    #[test]
    fn a_sleep_whose_waker_went_unseen_has_no_name() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
        it.wake(1, 2000, 42, 3);
        it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
        it.switch(1, 4000, VCPU + 1, SLEEPS, IDLE);
        it.switch(1, 5000, IDLE, RUNNABLE, VCPU + 1);
        it.expect(
            &[
                (Blocked, 1, 1000, 3000, "waker:42"),
                (Blocked, 1, 4000, 5000, "unknown"),
            ],
            0,
        );
    }

    #[test]
    fn a_wake_from_an_interrupt_names_the_interrupt() {
        let it = Handlers::new(PAGE);
        it.cpus.set_mode(3, Mode::VMNOISE_TRACKED);
        it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
        it.irq_entry(3, 1900, 236, "timer");
        it.wake(1, 2000, 42, 3);
        it.irq_exit(3, 2100, 236);
        it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
        it.switch(1, 4000, VCPU + 1, SLEEPS, IDLE);
        it.softirq_entry(3, 4100, 4);
        it.wake(1, 4500, 42, 3);
        it.switch(1, 5000, IDLE, RUNNABLE, VCPU + 1);
        it.expect(
            &[
                (Blocked, 1, 1000, 3000, "timer:236"),
                (Blocked, 1, 4000, 5000, "BLOCK:4"),
            ],
            0,
        );
    }

    #[test]
    fn a_wake_of_another_thread_is_none_of_ours() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
        let [id, name] = source(Origin::VMNOISE_FROM_TASK, 42, "waker");
        it.run("test_waking", 1, 2000, &[id, name, 7, 3]);
        it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
        it.expect(&[(Blocked, 1, 1000, 3000, "unknown")], 0);
    }

    #[test]
    fn idle_beside_a_runnable_vcpu_is_throttling() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, RUNNABLE, IDLE);
        it.switch(1, 1500, IDLE, RUNNABLE, 7);
        it.switch(1, 1700, 7, SLEEPS, IDLE);
        it.switch(1, 2000, IDLE, RUNNABLE, VCPU + 1);
        it.expect(
            &[
                (Throttled, 1, 1000, 1500, "idle"),
                (Thread, 1, 1500, 1700, "task:7"),
                (Throttled, 1, 1700, 2000, "idle"),
            ],
            0,
        );
    }

    #[test]
    fn preempted_on_the_way_to_sleep_is_still_runnable() {
        let it = Handlers::new(PAGE);
        it.preempt(1, 1000, VCPU + 1, SLEEPS, 7);
        it.switch(1, 1500, 7, SLEEPS, VCPU + 1);
        it.expect(&[(Thread, 1, 1000, 1500, "task:7")], 0);
    }

    #[test]
    fn idle_without_a_waiting_vcpu_is_nothing() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, 7, SLEEPS, IDLE); // the vCPU thread was never seen
        it.switch(1, 1500, IDLE, RUNNABLE, 7);
        it.switch(1, 1600, 7, SLEEPS, VCPU + 1);
        it.switch(1, 1700, VCPU + 1, SLEEPS, IDLE);
        it.switch(1, 1800, IDLE, RUNNABLE, 8);
        it.switch(1, 1900, 8, SLEEPS, IDLE);
        it.expect(
            &[
                (Thread, 1, 1500, 1600, "task:7"),
                (Thread, 1, 1800, 1900, "task:8"),
            ],
            0,
        );
    }

    #[test]
    fn a_lost_switch_blames_nobody() {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
        it.switch(1, 1500, 8, RUNNABLE, VCPU + 1); // lost: from 7 to 8
        it.switch(1, 2000, VCPU + 1, RUNNABLE, IDLE);
        it.switch(1, 2500, 7, RUNNABLE, IDLE); // lost: from idle, perhaps to the vCPU, to 7
        it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
        it.expect(&[], 2);
    }

    #[test]
    fn time_outside_kvm_run_is_the_vmms() {
        let it = Handlers::new(PAGE);
        it.run_enter(1, 1000);
        it.run_leave(1, 2000);
        it.userspace_exit(1, 2001);
        it.run_enter(1, 2500);
        it.run("test_kvm_run_leave", 1, 2600, &[7]); // another VM's thread on this CPU
        it.run_leave(1, 3000);
        it.userspace_exit(1, 3001);
        it.run_enter(1, 3100);
        it.expect(
            &[
                (Vmm, 1, 2000, 2500, "vmm:101"),
                (Vmm, 1, 3000, 3100, "vmm:101"),
            ],
            0,
        );
        assert_eq!((it.counts.heavy(1), it.counts.light(1)), (2, 0));
        assert!(!it.cpus.exits_fire(1));
    }

    #[test]
    fn half_a_vmm_interval_is_counted_and_not_told() {
        let it = Handlers::new(PAGE);
        it.run_enter(1, 1000);
        it.run_enter(1, 2000);
        it.run_leave(1, 3000);
        it.run_leave(1, 4000);
        it.run_enter(1, 5000);
        it.expect(&[(Vmm, 1, 4000, 5000, "vmm:101")], 2);
    }

    #[test]
    fn exits_are_light_until_they_leave_kvm_run() {
        let it = Handlers::new(PAGE);
        it.run_enter(1, 900);
        it.entry(1, 1000);
        it.exit(1, 2000);
        it.entry(1, 2100);
        it.exit(1, 3000);
        it.run_leave(1, 3100);
        it.userspace_exit(1, 3110);
        it.run_enter(1, 3200);
        it.entry(1, 3300);
        it.expect(
            &[
                (Exit, 1, 2000, 2100, "vmexit"),
                (Vmm, 1, 3100, 3200, "vmm:101"),
                (Exit, 1, 3000, 3300, "vmexit"),
            ],
            0,
        );
        assert_eq!((it.counts.light(1), it.counts.heavy(1)), (1, 1));
        assert!(it.cpus.exits_fire(1));
    }

    #[test]
    fn an_exit_starts_at_the_first_host_work() {
        let it = Handlers::new(PAGE);
        it.entry(1, 1000);
        it.irq_entry(1, 2000, 236, "timer");
        it.irq_exit(1, 2050, 236);
        it.exit(1, 2100);
        it.irq_entry(1, 2110, 236, "timer");
        it.irq_exit(1, 2120, 236);
        it.entry(1, 2200);
        it.run("test_nmi", 1, 3000, &[20]);
        it.exit(1, 3010);
        it.entry(1, 3100);
        it.exit(1, 4000);
        it.entry(1, 4050);
        let exits: Vec<_> = it
            .seen()
            .into_iter()
            .filter(|seen| seen.0 == Exit)
            .map(|(_, _, start, end, _)| (start, end))
            .collect();
        assert_eq!(exits, [(2000, 2200), (2980, 3100), (4000, 4050)]);
    }

    #[test]
    fn half_an_exit_is_counted_and_not_told() {
        let it = Handlers::new(PAGE);
        it.entry(1, 1000);
        it.entry(1, 1100);
        it.exit(1, 2000);
        it.exit(1, 2100);
        it.entry(1, 2200);
        it.expect(&[(Exit, 1, 2100, 2200, "vmexit")], 2);
    }

    #[test]
    fn a_full_ring_is_a_counted_loss() {
        let it = Handlers::new(PAGE);
        for i in 0..100 {
            it.irq_entry(1, 1000 + 10 * i, 236, "timer");
            it.irq_exit(1, 1005 + 10 * i, 236);
        }
        let told = it.seen().len() as u64;
        assert!(told < 100, "a page holds all {told} records");
        assert_eq!(told + it.cpus.ring_full(), 100);
    }

    #[derive(Debug, Clone)]
    enum Step {
        IrqEntry(u32),
        IrqExit(u32),
        SoftirqEntry(u64),
        SoftirqExit(u64),
        Switch(u32, bool, u32),
        Wake,
        Leave,
        Enter,
        Exit,
        Entry,
    }

    fn step() -> impl Strategy<Value = Step> {
        let task = || prop_oneof![Just(IDLE), Just(VCPU + 1), Just(7), Just(8)];
        prop_oneof![
            (0..3_u32).prop_map(Step::IrqEntry),
            (0..3_u32).prop_map(Step::IrqExit),
            (0..2_u64).prop_map(Step::SoftirqEntry),
            (0..2_u64).prop_map(Step::SoftirqExit),
            (task(), any::<bool>(), task()).prop_map(|(a, b, c)| Step::Switch(a, b, c)),
            Just(Step::Wake),
            Just(Step::Leave),
            Just(Step::Enter),
            Just(Step::Exit),
            Just(Step::Entry),
        ]
    }

    fn overlap(a: &Seen, b: &Seen) -> bool {
        a.2 < b.3 && b.2 < a.3
    }

    fn nested(a: &Seen, b: &Seen) -> bool {
        (a.2 <= b.2 && b.3 <= a.3) || (b.2 <= a.2 && a.3 <= b.3)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever is lost or doubled: intervals lie in the stream's time, those of
        /// one kind never cross, and the CPU never runs two tasks at once.
        #[test]
        fn any_stream_gives_sound_intervals(steps in proptest::collection::vec(step(), 1..80)) {
            let it = Handlers::new(16 * PAGE);
            let mut now_ns = 1000;
            for step in &steps {
                now_ns += 10;
                match *step {
                    Step::IrqEntry(vector) => it.irq_entry(1, now_ns, vector, "irq"),
                    Step::IrqExit(vector) => it.irq_exit(1, now_ns, vector),
                    Step::SoftirqEntry(number) => it.softirq_entry(1, now_ns, number),
                    Step::SoftirqExit(number) => it.softirq_exit(1, now_ns, number),
                    Step::Switch(prev, sleeps, next) => {
                        it.switch(1, now_ns, prev, u64::from(sleeps), next);
                    }
                    Step::Wake => it.wake(1, now_ns, 42, 2),
                    Step::Leave => it.run_leave(1, now_ns),
                    Step::Enter => it.run_enter(1, now_ns),
                    Step::Exit => it.exit(1, now_ns),
                    Step::Entry => it.entry(1, now_ns),
                }
            }
            let seen = it.seen();
            for (i, a) in seen.iter().enumerate() {
                prop_assert!(1000 < a.2 && a.2 < a.3 && a.3 <= now_ns, "{a:?}");
                for b in &seen[i + 1..] {
                    let tasks = [a.0, b.0].iter().all(|kind| [Thread, Throttled].contains(kind));
                    prop_assert!(!(tasks && overlap(a, b)), "{a:?} {b:?}");
                    let crossing = a.0 == b.0 && overlap(a, b) && !nested(a, b);
                    prop_assert!(!crossing, "{a:?} {b:?}");
                }
            }
        }
    }
}
