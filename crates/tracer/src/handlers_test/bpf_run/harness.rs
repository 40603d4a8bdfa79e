//! Runs the handlers by BPF_PROG_RUN, and collects their reports.

use std::{
    cell::Cell,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
};

use libbpf_rs::{Object, ObjectBuilder, ProgramInput, RingBuffer, RingBufferBuilder, libbpf_sys};
use vmnoise_events::{ActivityKind, Event, InterferenceCounts};

use crate::{
    decode::RecordDecoder,
    mapped::{MappedCounts, MappedCpus},
    maps::Maps,
    wire::{Mode, Origin},
};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/handlers_test.bpf.o"));
pub(super) const CPUS: u32 = 8;
pub(super) const IDLE: u32 = 0;
/// Thread id of the vCPU of CPU 0. The vCPU of CPU n has the thread id VCPU + n.
pub(super) const VCPU: u32 = 100;
pub(super) const SLEEPS: u64 = 1;
pub(super) const RUNNABLE: u64 = 0;
/// TASK_STOPPED and TASK_TRACED of include/linux/sched.h.
pub(super) const STOPPED: u64 = 0x104;
pub(super) const TRACED: u64 = 0x8;
/// Smallest ring buffer: one page.
pub(super) const PAGE: u32 = 4096;

/// A reported activity: kind, CPU, begin, end and label.
pub(super) type Seen = (ActivityKind, u32, u64, u64, String);

pub(super) struct Handlers {
    object: Object,
    ring: RingBuffer<'static>,
    events: Arc<Mutex<Vec<Event>>>,
    /// Value of the steal clock at the next events, in ns.
    pub(super) steal_ns: Cell<u64>,
    pub(super) cpus: MappedCpus,
    pub(super) counts: MappedCounts,
}

impl Handlers {
    pub(super) fn new(ring_bytes: u32) -> Handlers {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let mut records = open.maps_mut().find(|map| map.name() == "records").unwrap();
        records.set_max_entries(ring_bytes).unwrap();
        let object = open.load().unwrap();
        let cpus = MappedCpus::map(&object).unwrap();
        let counts = MappedCounts::map(&object).unwrap();
        for cpu in 0..CPUS {
            cpus.set_vcpu(cpu, VCPU + cpu);
            cpus.set_mode(cpu, Mode::VMNOISE_MEASURED);
        }
        let events = Arc::new(Mutex::new(Vec::new()));
        let filled = Arc::clone(&events);
        let mut decoder = RecordDecoder::default();
        let mut ring = RingBufferBuilder::new();
        let records = object.map("records");
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
            steal_ns: Cell::new(0),
            cpus,
            counts,
        }
    }

    pub(super) fn run(&self, program: &str, cpu: u32, now_ns: u64, values: &[u64]) {
        let mut context = [0_u64; 12];
        context[0] = u64::from(cpu);
        context[1] = now_ns;
        context[2] = self.steal_ns.get();
        context[3..3 + values.len()].copy_from_slice(values);
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

    pub(super) fn irq_entry(&self, cpu: u32, now_ns: u64, vector: u32, name: &str) {
        let source = source(Origin::VMNOISE_FROM_VECTOR, vector, name);
        self.run("test_irq_entry", cpu, now_ns, &source);
    }

    pub(super) fn irq_exit(&self, cpu: u32, now_ns: u64, vector: u32) {
        let source = source(Origin::VMNOISE_FROM_VECTOR, vector, "");
        self.run("test_irq_exit", cpu, now_ns, &source);
    }

    pub(super) fn softirq_entry(&self, cpu: u32, now_ns: u64, number: u64) {
        self.run("test_softirq_entry", cpu, now_ns, &[number]);
    }

    pub(super) fn softirq_exit(&self, cpu: u32, now_ns: u64, number: u64) {
        self.run("test_softirq_exit", cpu, now_ns, &[number]);
    }

    pub(super) fn switch(&self, cpu: u32, now_ns: u64, prev: u32, prev_state: u64, next: u32) {
        let [id, name] = source(Origin::VMNOISE_FROM_TASK, prev, "task");
        let values = [id, name, u64::from(next), prev_state, 0];
        self.run("test_switch", cpu, now_ns, &values);
    }

    /// Makes a switch away from a task whose arrival fired no event. `times` has two times in ns:
    /// when the task left whose arrival was seen last, and when the unseen task came.
    pub(super) fn after_unseen(
        &self,
        cpu: u32,
        now_ns: u64,
        tasks: (u32, u64, u32),
        times: (u64, u64),
    ) {
        self.after_unseen_with(cpu, now_ns, tasks, times, false);
    }

    /// Does the same as `after_unseen`. In addition, the scheduler's count of turns shows that the
    /// vCPU's thread had no other turn than the one that ends now.
    pub(super) fn after_unseen_beside_vcpu(
        &self,
        cpu: u32,
        now_ns: u64,
        tasks: (u32, u64, u32),
        times: (u64, u64),
    ) {
        self.after_unseen_with(cpu, now_ns, tasks, times, true);
    }

    fn after_unseen_with(
        &self,
        cpu: u32,
        now_ns: u64,
        (prev, prev_state, next): (u32, u64, u32),
        (left_ns, came_ns): (u64, u64),
        beside_vcpu: bool,
    ) {
        let [id, name] = source(Origin::VMNOISE_FROM_TASK, prev, "task");
        let next = u64::from(next);
        let beside_vcpu = u64::from(beside_vcpu);
        let values = [id, name, next, prev_state, 0, left_ns, came_ns, beside_vcpu];
        self.run("test_switch", cpu, now_ns, &values);
    }

    pub(super) fn preempt(&self, cpu: u32, now_ns: u64, prev: u32, prev_state: u64, next: u32) {
        let [id, name] = source(Origin::VMNOISE_FROM_TASK, prev, "task");
        let values = [id, name, u64::from(next), prev_state, 1];
        self.run("test_switch", cpu, now_ns, &values);
    }

    /// Makes the thread `waker` on `waker_cpu` wake the vCPU's thread of `cpu`.
    pub(super) fn wake(&self, cpu: u32, now_ns: u64, waker: u32, waker_cpu: u32) {
        let [id, name] = source(Origin::VMNOISE_FROM_TASK, waker, "waker");
        let values = [id, name, u64::from(VCPU + cpu), u64::from(waker_cpu)];
        self.run("test_waking", cpu, now_ns, &values);
    }

    pub(super) fn run_leave(&self, cpu: u32, now_ns: u64) {
        self.run("test_kvm_run_leave", cpu, now_ns, &[u64::from(VCPU + cpu)]);
    }

    pub(super) fn run_enter(&self, cpu: u32, now_ns: u64) {
        let vmm = source(Origin::VMNOISE_FROM_TASK, VCPU + cpu, "vmm");
        self.run("test_kvm_run_enter", cpu, now_ns, &vmm);
    }

    pub(super) fn userspace_exit(&self, cpu: u32, now_ns: u64) {
        self.run("test_userspace_exit", cpu, now_ns, &[u64::from(VCPU + cpu)]);
    }

    pub(super) fn exit(&self, cpu: u32, now_ns: u64) {
        self.exit_for(cpu, now_ns, 0, 0);
    }

    /// Makes an exit. KVM's structures have this vendor and exit code.
    pub(super) fn exit_for(&self, cpu: u32, now_ns: u64, isa: u64, code: u64) {
        let values = [u64::from(VCPU + cpu), isa, code];
        self.run("test_kvm_exit", cpu, now_ns, &values);
    }

    pub(super) fn entry(&self, cpu: u32, now_ns: u64) {
        self.run("test_kvm_entry", cpu, now_ns, &[u64::from(VCPU + cpu)]);
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.ring.consume().unwrap();
        let mut names = Vec::new();
        let mut seen = Vec::new();
        for event in self.events.lock().unwrap().iter() {
            match event {
                Event::Source(source) => names.push(source.name.to_string()),
                Event::Activity(it) => {
                    let name = names[it.source.0 as usize].clone();
                    seen.push((it.kind, it.cpu, it.start_mono_ns, it.end_mono_ns, name));
                }
                other => panic!("a tracer says nothing of {other:?}"),
            }
        }
        seen
    }

    /// Returns the interference counters of a CPU, and checks that they add up to the total.
    pub(super) fn interference(&self, cpu: u32) -> InterferenceCounts {
        let slot = self.cpus.interference(cpu).unwrap();
        let counts = slot.counts();
        let sum = counts.nmi + counts.irq + counts.softirq + counts.thread;
        assert_eq!(slot.total.load(Relaxed), sum);
        counts
    }

    /// Returns the kind and steal time of the activities in [`Handlers::seen`].
    pub(super) fn steals(&self) -> Vec<(ActivityKind, u64)> {
        self.ring.consume().unwrap();
        let reported = self.events.lock().unwrap();
        let activity = |event: &Event| match event {
            Event::Activity(it) => Some((it.kind, it.steal_ns)),
            _ => None,
        };
        reported.iter().filter_map(activity).collect()
    }

    #[track_caller]
    pub(super) fn expect(&self, expected: &[(ActivityKind, u32, u64, u64, &str)], unpaired: u64) {
        let seen = self.seen();
        let seen: Vec<_> = seen
            .iter()
            .map(|(kind, cpu, a, b, name)| (*kind, *cpu, *a, *b, &**name))
            .collect();
        assert_eq!(seen, expected);
        assert_eq!(self.cpus.unpaired(), unpaired);
    }
}

/// Returns the two words that describe a source in the context of a test program.
pub(super) fn source(origin: Origin, id: u32, name: &str) -> [u64; 2] {
    let mut letters = [0; 8];
    letters[..name.len()].copy_from_slice(name.as_bytes());
    [
        u64::from(origin.0) << 32 | u64::from(id),
        u64::from_ne_bytes(letters),
    ]
}
