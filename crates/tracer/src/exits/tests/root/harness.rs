//! Runs handlers by BPF_PROG_RUN, and holds what they tell against what they count.

use std::cell::RefCell;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput, libbpf_sys};
use vmnoise_events::{
    Activity, ActivityKind, Event, Share, Vcpu, VcpuExit, VcpuId, VcpuInterval, VcpuIntervalKind,
    VcpuTotals,
};

use crate::exits::{
    REASONS, Streaming, clocks::Look, maps::Maps, stream::Stream, totals, vm_names, wire,
};

use crate::host::Host;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/exits_test.bpf.o"));

/// A vCPU's thread, another task, and idle.
pub(super) const VCPU: u64 = 100;
pub(super) const TASK: u64 = 7;
pub(super) const IDLE: u64 = 0;
pub(super) const SLEEPS: u64 = 1;
pub(super) const CPUID: u64 = 0x72;
pub(super) const IO: u64 = 0x7b;
pub(super) const HLT: u64 = 0x78;
/// More than a test tells.
const RING_BYTES: u32 = 1 << 20;

/// Kind, CPU, begin, end and label of an activity.
pub(super) type Seen = (ActivityKind, u32, u64, u64, String);
/// Kind, the CPUs, begin, end and waker of an interval.
pub(super) type Kept = (VcpuIntervalKind, [u32; 2], u64, u64, Option<String>);

pub(super) struct Handlers {
    object: Object,
    stream: RefCell<Stream>,
    told: RefCell<Vec<Event>>,
}

impl Handlers {
    pub(super) fn new() -> Handlers {
        Self::of(false, 0, RING_BYTES)
    }

    pub(super) fn kvm_run_only() -> Handlers {
        Self::of(true, 0, RING_BYTES)
    }

    pub(super) fn of(kvm_run_only: bool, threshold_ns: u64, ring_bytes: u32) -> Handlers {
        let streaming = Streaming::Exits { threshold_ns };
        let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == "reasons" {
                map.set_max_entries(8 * REASONS as u32).unwrap();
            } else if name == "records" {
                map.set_max_entries(ring_bytes).unwrap();
            } else if name.ends_with(".rodata") {
                map.set_initial_value(&wire::settings(kvm_run_only, streaming))
                    .unwrap();
            }
        }
        let object = open.load().unwrap();
        let stream = RefCell::new(Stream::of(&object).unwrap());
        Handlers {
            object,
            stream,
            told: RefCell::default(),
        }
    }

    /// Enters at 1000 on CPU 0, with nothing before it.
    pub(super) fn entered() -> Handlers {
        let handlers = Handlers::new();
        handlers.run("entry", 0, 1_000, &[VCPU]);
        handlers
    }

    /// Where kvm_exit never fires: a task has the CPU for 400 ns inside KVM_RUN, and the VMM
    /// has 300 ns between two KVM_RUN.
    pub(super) fn two_runs() -> Handlers {
        let handlers = Handlers::kvm_run_only();
        handlers.run("run_enter", 0, 1_000, &[VCPU]);
        handlers.run("switch", 0, 2_000, &[1, 0, VCPU, TASK]);
        handlers.run("switch", 0, 2_400, &[0, SLEEPS, TASK, VCPU]);
        handlers.run("run_leave", 0, 3_000, &[VCPU]);
        handlers.run("run_enter", 0, 3_300, &[VCPU]);
        handlers
    }

    pub(super) fn run(&self, event: &str, cpu: u64, now_ns: u64, values: &[u64]) {
        let mut context = [0_u64; 12];
        (context[0], context[1]) = (cpu, now_ns);
        context[2..2 + values.len()].copy_from_slice(values);
        let mut bytes: Vec<u8> = context.into_iter().flat_map(u64::to_ne_bytes).collect();
        let input = ProgramInput {
            context_in: Some(&mut bytes),
            flags: libbpf_sys::BPF_F_TEST_RUN_ON_CPU,
            ..ProgramInput::default()
        };
        let name = format!("test_{event}");
        let program = self
            .object
            .progs_mut()
            .find(|it| it.name() == name.as_str());
        program.unwrap().test_run(input).unwrap();
    }

    /// What was counted of a vCPU, whatever was told.
    pub(super) fn counted(&self, index: u32) -> VcpuTotals {
        let first = index * REASONS as u32;
        let keys = first..first + REASONS as u32;
        let reasons: Vec<_> = keys
            .map(|key| self.object.value("reasons", key).unwrap().unwrap())
            .collect();
        let globals = self.object.globals().unwrap();
        let vcpu = self.object.value("vcpus", index).unwrap().unwrap();
        totals::vcpu(VcpuId(index - 1), &vcpu, &reasons, &globals)
    }

    /// What was counted of a vCPU: share by share, it is what was told of its exits.
    pub(super) fn vcpu(&self, index: u32) -> VcpuTotals {
        let counted = self.counted(index);
        let exits = self.exits(index);
        assert_eq!(exits.len() as u64, counted.exits);
        assert_eq!(
            exits.iter().filter(|told| told.exit.heavy).count() as u64,
            counted.heavy
        );
        let told =
            |share: Share| -> u64 { exits.iter().map(|it| part(&it.exit.split, share)).sum() };
        let of_reasons = |share: Share| -> u64 {
            let reasons = counted.reasons.iter();
            reasons.map(|reason| part(&reason.split, share)).sum()
        };
        // KVM's own is the rest of an exit: nothing where a mad stream took more than all of it.
        let sane = exits
            .iter()
            .all(|it| it.exit.split.total() == it.exit.dur_ns());
        for (share, _) in counted.split.parts() {
            if share == Share::Kvm && !sane {
                continue;
            }
            assert_eq!(told(share), of_reasons(share), "{share}: {exits:?}");
        }
        counted
    }

    /// The exits of a vCPU, as they were told.
    pub(super) fn exits(&self, index: u32) -> Vec<VcpuExit> {
        let id = VcpuId(index - 1);
        let told = self.told();
        let exits = told.iter().filter_map(|event| match event {
            Event::Exit(exit) if exit.vcpu == id => Some(*exit),
            _ => None,
        });
        exits.collect()
    }

    /// Everything told so far.
    pub(super) fn told(&self) -> Vec<Event> {
        let mut told = self.told.borrow_mut();
        let mut stream = self.stream.borrow_mut();
        stream
            .drain(&|id| Ok(self.known(id)), &mut |event| told.push(event))
            .unwrap();
        assert_eq!(stream.undecodable(), 0);
        told.clone()
    }

    /// Everything told so far, once the clocks of this machine were looked at, where vCPUs
    /// have this number.
    pub(super) fn clocks(&self, host: &Host, number: u32) -> Vec<Event> {
        let look = Look::at(host);
        self.told();
        let known = self.object.globals().unwrap().vcpus_known;
        let mut told = self.told.borrow_mut();
        let mut stream = self.stream.borrow_mut();
        let vcpu = |id| {
            Ok(Vcpu {
                number: Some(number),
                ..self.known(id)
            })
        };
        stream
            .tell_clocks(&look, known, &vcpu, &mut |event| told.push(event))
            .unwrap();
        told.clone()
    }

    fn known(&self, id: VcpuId) -> Vcpu {
        let wire = self.object.value("vcpus", id.0 + 1).unwrap().unwrap();
        vm_names::VmNames::default().vcpu(id, &wire, true)
    }

    pub(super) fn intervals(&self) -> Vec<Kept> {
        let told = self.told();
        let name = |interval: &VcpuInterval| Some(label(&told, interval.source?.0));
        let intervals = told.iter().filter_map(|event| match event {
            Event::VcpuInterval(it) => Some((
                it.kind,
                [it.cpu, it.to_cpu],
                it.start_mono_ns,
                it.end_mono_ns,
                name(it),
            )),
            _ => None,
        });
        intervals.collect()
    }

    pub(super) fn activities(&self) -> Vec<Seen> {
        let told = self.told();
        let seen = |it: &Activity| {
            let name = label(&told, it.source.0);
            (it.kind, it.cpu, it.start_mono_ns, it.end_mono_ns, name)
        };
        let activities = told.iter().filter_map(|event| match event {
            Event::Activity(activity) => Some(seen(activity)),
            _ => None,
        });
        activities.collect()
    }

    /// Records that found no room.
    pub(super) fn lost(&self) -> u64 {
        self.object.globals().unwrap().records_lost
    }

    pub(super) fn wire_vcpu(&self, index: u32) -> wire::WireVcpu {
        let map = self.object.map("vcpus");
        let bytes = map.lookup(&index.to_ne_bytes(), MapFlags::ANY).unwrap();
        wire::read(&bytes.unwrap()).unwrap()
    }
}

pub(super) fn part(split: &vmnoise_events::ExitSplit, share: Share) -> u64 {
    let parts = split.parts();
    parts.iter().find(|(it, _)| *it == share).unwrap().1
}

/// The name of a source, which is defined by then.
fn label(told: &[Event], id: u32) -> String {
    let named = told.iter().find_map(|event| match event {
        Event::Source(source) if source.id.0 == id => Some(source.name.clone()),
        _ => None,
    });
    named.expect("a source is defined before its first use")
}
