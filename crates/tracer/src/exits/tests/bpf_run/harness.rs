//! Runs the handlers by BPF_PROG_RUN, and compares the reported records with the counts.

use std::cell::RefCell;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use vmnoise_events::{
    Activity, ActivityKind, Event, Share, Vcpu, VcpuExit, VcpuId, VcpuInterval, VcpuIntervalKind,
    VcpuTotals,
};

use crate::exits::{
    REASONS, Streaming, clocks::ClockLook, roll::Roll, stream::Stream, table::Table, totals, wire,
};

use super::moment::Moment;
use crate::maps::Maps;
use crate::plain;
use crate::{KnownVms, VmSearch};
use vmnoise_host::{Host, VmProcess};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/exits_test.bpf.o"));

/// Thread of the vCPU. The next two constants are another task and the idle task.
pub(super) const VCPU: u64 = 100;
pub(super) const TASK: u64 = 7;
pub(super) const IDLE: u64 = 0;
pub(super) const SLEEPS: u64 = 1;
pub(super) const CPUID: u64 = 0x72;
pub(super) const IO: u64 = 0x7b;
pub(super) const HLT: u64 = 0x78;
/// Names of the events. The index of a name is the event's number in `bpf/exits_test.bpf.c`.
const EVENTS: [&str; 18] = [
    "irq_entry",
    "irq_exit",
    "softirq_entry",
    "softirq_exit",
    "nmi",
    "switch",
    "migrate",
    "waking",
    "halted",
    "run_leave",
    "run_enter",
    "exit",
    "entry",
    "tsc_write",
    "reset",
    "thread_ends",
    "amid",
    "hidden_switch",
];
/// Number of events in one run. [`WORDS`] is the number of words of each event: its kind, CPU and
/// time, and ten values.
const ROOM: usize = 128;
const WORDS: usize = 13;
/// Number of entries in the table of threads. It is larger than the number of slots for vCPUs.
const THREADS: u32 = 64;
/// Number of slots for vCPUs.
pub(super) const PLACES: u32 = 7;
/// Size of the ring buffer in bytes. The records of all tests fit into it.
const RING_BYTES: u32 = 1 << 22;

/// An event: its name, CPU and time, and its other values.
pub(super) type Happens<'a> = (&'a str, u64, u64, &'a [u64]);
/// A reported activity: kind, CPU, begin, end and label.
pub(super) type Seen = (ActivityKind, u32, u64, u64, String);
/// A reported interval: kind, the CPUs at its begin and end, begin, end and waker.
pub(super) type Kept = (VcpuIntervalKind, [u32; 2], u64, u64, Option<String>);

/// A stream of events in the layout that the test program expects.
#[derive(Clone, Copy)]
struct Sent([u64; 1 + ROOM * WORDS]);

impl plain::Plain for Sent {}

pub(super) struct Handlers {
    object: Object,
    kvm_run_only: bool,
    stream: RefCell<Stream>,
    roll: RefCell<Roll>,
    reported: RefCell<Vec<Event>>,
}

impl Handlers {
    pub(super) fn new() -> Handlers {
        Self::of(false, 0, RING_BYTES)
    }

    pub(super) fn kvm_run_only() -> Handlers {
        Self::of(true, 0, RING_BYTES)
    }

    pub(super) fn preempt_rt() -> Handlers {
        let streaming = Streaming::Exits { threshold_ns: 0 };
        let settings = wire::settings(false, true, streaming);
        Self::with(&settings, false, RING_BYTES)
    }

    pub(super) fn of(kvm_run_only: bool, threshold_ns: u64, ring_bytes: u32) -> Handlers {
        let streaming = Streaming::Exits { threshold_ns };
        let settings = wire::settings(kvm_run_only, false, streaming);
        Self::with(&settings, kvm_run_only, ring_bytes)
    }

    fn with(settings: &[u8], kvm_run_only: bool, ring_bytes: u32) -> Handlers {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == "reasons" {
                map.set_max_entries(8 * REASONS as u32).unwrap();
            } else if name == "threads" {
                map.set_max_entries(THREADS).unwrap();
            } else if name == "records" {
                map.set_max_entries(ring_bytes).unwrap();
            } else if name.ends_with(".rodata") {
                map.set_initial_value(settings).unwrap();
            }
        }
        let object = open.load().unwrap();
        let stream = RefCell::new(Stream::of(&object).unwrap());
        let roll = RefCell::new(empty(&object));
        let handlers = Handlers {
            object,
            kvm_run_only,
            stream,
            roll,
            reported: RefCell::default(),
        };
        handlers.counts(true);
        handlers
    }

    /// Puts a vCPU into the table before the programs are attached.
    pub(super) fn expects(&self, tid: u64) {
        let vcpu = wire::WireVcpu {
            tid: tid as u32,
            tgid: tid as u32,
            ..wire::WireVcpu::default()
        };
        let mut roll = self.roll.borrow_mut();
        roll.table.seat(&self.object, &vcpu).unwrap();
    }

    /// Sets whether the programs count begins.
    pub(super) fn counts(&self, counting: bool) {
        self.tell(counting, 0);
    }

    /// Counts only vCPUs of this process.
    pub(super) fn follows(&self, process: u64) {
        self.tell(true, process as u32);
    }

    fn tell(&self, counting: bool, followed: u32) {
        let controls = wire::controls(counting, followed);
        self.object.set(".data", 0, &controls).unwrap();
    }

    /// Returns handlers after the vCPU entered its guest on CPU 0 at 1000, with no earlier event.
    pub(super) fn entered() -> Handlers {
        let handlers = Handlers::new();
        handlers.run("entry", 0, 1_000, &[VCPU]);
        handlers
    }

    /// Returns handlers after two KVM_RUN calls without kvm_exit. A task has the CPU for 400 ns
    /// inside KVM_RUN. The VMM has 300 ns between the two calls.
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
        self.run_all(&[(event, cpu, now_ns, values)]);
    }

    /// Runs these events.
    pub(super) fn run_all(&self, events: &[Happens<'_>]) {
        for events in events.chunks(ROOM) {
            let mut stream = Sent([0; 1 + ROOM * WORDS]);
            stream.0[0] = events.len() as u64;
            let places = stream.0[1..].chunks_exact_mut(WORDS);
            for ((event, cpu, now_ns, values), words) in events.iter().zip(places) {
                let kind = EVENTS.iter().position(|known| known == event).unwrap();
                words[..3].copy_from_slice(&[kind as u64, *cpu, *now_ns]);
                words[3..3 + values.len()].copy_from_slice(values);
            }
            self.object.set("stream", 0, plain::bytes(&stream)).unwrap();
            let mut programs = self.object.progs_mut();
            let program = programs.find(|it| it.name() == "test_stream").unwrap();
            program.test_run(ProgramInput::default()).unwrap();
        }
    }

    /// Returns the events that are reported for this stream. All state is cleared before.
    pub(super) fn live(&self, moments: &[Moment]) -> Vec<Event> {
        let mut values = vec![[0; 4]; moments.len()];
        self.run("reset", 0, 0, &[]);
        *self.roll.borrow_mut() = empty(&self.object);
        let reported = moments.iter().zip(&mut values);
        let events: Vec<_> = reported
            .map(|(moment, values)| moment.happens(values))
            .collect();
        self.run_all(&events);
        let mut reported = Vec::new();
        let mut stream = self.stream.borrow_mut();
        let mut roll = self.roll.borrow_mut();
        stream
            .drain(&self.object, &mut roll, &mut |event| reported.push(event))
            .unwrap();
        assert_eq!(stream.undecodable(), 0);
        reported
    }

    /// Returns the counts of a vCPU, without comparing them with the reported exits.
    pub(super) fn counted(&self, index: u32) -> VcpuTotals {
        let globals = wire::globals(&self.object).unwrap();
        let first = index * REASONS as u32;
        let reasons: Vec<_> = (first..first + globals.reasons_known)
            .map(|key| self.object.value("reasons", key).unwrap().unwrap())
            .collect();
        let vcpu = self.object.value("vcpus", index).unwrap().unwrap();
        let id = VcpuId(index - 1);
        totals::vcpu(id, &vcpu, &reasons, &globals, self.kvm_run_only)
    }

    /// Returns the counts of a vCPU. Checks that each share equals the sum over the reported exits.
    pub(super) fn vcpu(&self, index: u32) -> VcpuTotals {
        let counted = self.counted(index);
        let exits = self.exits(index);
        assert_eq!(exits.len() as u64, counted.exits);
        assert_eq!(
            exits.iter().filter(|reported| reported.exit.heavy).count() as u64,
            counted.heavy
        );
        let reported = |share: Share| -> u64 { exits.iter().map(|it| it.exit.split[share]).sum() };
        let of_reasons = |share: Share| -> u64 {
            let reasons = counted.reasons.iter();
            reasons.map(|reason| reason.split[share]).sum()
        };
        // KVM's own time is the rest of an exit. It is 0 if an impossible stream takes more time
        // than the exit has.
        let sane = exits
            .iter()
            .all(|it| it.exit.split.total() == it.exit.dur_ns());
        for (share, _) in counted.split.select(Share::OF_EXITS) {
            if share == Share::Kvm && !sane {
                continue;
            }
            assert_eq!(reported(share), of_reasons(share), "{share}: {exits:?}");
        }
        counted
    }

    /// Returns the reported exits of a vCPU.
    pub(super) fn exits(&self, index: u32) -> Vec<VcpuExit> {
        let id = VcpuId(index - 1);
        let reported = self.reported();
        let exits = reported.iter().filter_map(|event| match event {
            Event::Exit(exit) if exit.vcpu == id => Some(*exit),
            _ => None,
        });
        exits.collect()
    }

    /// Returns all events that were reported so far.
    pub(super) fn reported(&self) -> Vec<Event> {
        let mut reported = self.reported.borrow_mut();
        let mut stream = self.stream.borrow_mut();
        let mut roll = self.roll.borrow_mut();
        stream
            .drain(&self.object, &mut roll, &mut |event| reported.push(event))
            .unwrap();
        assert_eq!(stream.undecodable(), 0);
        reported.clone()
    }

    /// Reads the clocks of `host`, and returns all events that were reported so far. The host's
    /// vCPUs have the number `number`.
    pub(super) fn clocks(&self, host: &Host, number: u32) -> Vec<Event> {
        let look = ClockLook::at(&KnownVms::new(VmSearch::by_files(host.clone())));
        self.reported();
        let mut reported = self.reported.borrow_mut();
        let mut roll = self.roll.borrow_mut();
        let report = &mut |event| reported.push(event);
        roll.define(&self.object, report).unwrap();
        let numbered = |vcpu: Vcpu| Vcpu {
            number: Some(number),
            ..vcpu
        };
        let vcpus: Vec<Vcpu> = roll.present().into_iter().map(numbered).collect();
        self.stream
            .borrow_mut()
            .report_clocks(&look, &vcpus, report);
        drop(roll);
        reported.clone()
    }

    /// Finds the vCPUs that have come or ended, and frees the slots of those that have ended.
    /// Returns the slot and thread id of each ended vCPU.
    pub(super) fn bury(&self) -> Vec<(u32, u32)> {
        let mut roll = self.roll.borrow_mut();
        roll.look(&self.object).unwrap();
        let ended = roll.table.take_ended();
        let ended = ended.into_iter().map(|(id, place)| {
            let tid = self.wire_vcpu(place).tid;
            roll.bury(&self.object, id, place).unwrap();
            (place, tid)
        });
        ended.collect()
    }

    /// Takes a scan in which only these processes hold VMs. vCPUs of processes that no longer hold
    /// a VM are forgotten.
    pub(super) fn vms_are(&self, processes: &[u64]) {
        self.known_vcpus();
        self.vms_were(processes);
    }

    /// Does the same as `vms_are` with an older scan, which was made before the last events.
    pub(super) fn vms_were(&self, processes: &[u64]) {
        let vms: Vec<VmProcess> = processes.iter().map(|&pid| vm(pid)).collect();
        let mut roll = self.roll.borrow_mut();
        roll.forget_gone(&self.object, &vms).unwrap();
        roll.learn(&[], vms);
    }

    /// Reports the name of this process's VM, whether or not its files can be read.
    pub(super) fn learns(&self, process: u64) {
        let looked_at = [process as u32];
        self.roll.borrow_mut().learn(&looked_at, vec![vm(process)]);
    }

    /// Returns the process ids of the vCPUs that came since the last call. From now on, these
    /// processes count as being looked up.
    pub(super) fn newcomers(&self) -> Vec<u32> {
        self.roll.borrow_mut().look(&self.object).unwrap()
    }

    /// Returns the name of the VM of each vCPU that was defined, or defined again, since the last
    /// call.
    pub(super) fn names(&self) -> Vec<(VcpuId, String)> {
        let mut names = Vec::new();
        let mut name = |event| match event {
            Event::Vcpu(vcpu) => names.push((vcpu.id, vcpu.vm_name.into())),
            other => panic!("no vCPU: {other:?}"),
        };
        let mut roll = self.roll.borrow_mut();
        roll.define(&self.object, &mut name).unwrap();
        names
    }

    /// Returns the slot of a thread in the kernel's table; 0 for a thread without room, `None` for
    /// an unknown thread.
    pub(super) fn place_of(&self, tid: u64) -> Option<u32> {
        self.object.value("threads", tid as u32).unwrap()
    }

    pub(super) fn vcpus_lost(&self) -> u64 {
        wire::globals(&self.object).unwrap().vcpus_lost
    }

    pub(super) fn sees_kvm_run_only(&self) -> bool {
        self.kvm_run_only
    }

    pub(super) fn unpaired(&self) -> u64 {
        wire::globals(&self.object).unwrap().unpaired
    }

    /// Returns the thread ids of all vCPUs that were defined.
    pub(super) fn known_vcpus(&self) -> Vec<u32> {
        let mut roll = self.roll.borrow_mut();
        roll.define(&self.object, &mut |_| {}).unwrap();
        roll.present().into_iter().map(|vcpu| vcpu.tid).collect()
    }

    pub(super) fn intervals(&self) -> Vec<Kept> {
        let reported = self.reported();
        let name = |interval: &VcpuInterval| Some(label(&reported, interval.source?.0));
        let intervals = reported.iter().filter_map(|event| match event {
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
        let reported = self.reported();
        let seen = |it: &Activity| {
            let name = label(&reported, it.source.0);
            (it.kind, it.cpu, it.start_mono_ns, it.end_mono_ns, name)
        };
        let activities = reported.iter().filter_map(|event| match event {
            Event::Activity(activity) => Some(seen(activity)),
            _ => None,
        });
        activities.collect()
    }

    /// Returns the number of records that did not fit into the ring buffer.
    pub(super) fn lost(&self) -> u64 {
        wire::globals(&self.object).unwrap().records_lost
    }

    /// Clears the wake-up of a vCPU, as a switch does during which another CPU woke the thread.
    pub(super) fn forget_wake(&self, index: u32) {
        let vcpu = wire::WireVcpu {
            wake: 0,
            ..self.wire_vcpu(index)
        };
        self.object
            .set("vcpus", index, plain::bytes(&vcpu))
            .unwrap();
    }

    pub(super) fn wire_vcpu(&self, index: u32) -> wire::WireVcpu {
        let map = self.object.map("vcpus");
        let bytes = map.lookup(&index.to_ne_bytes(), MapFlags::ANY).unwrap();
        plain::read(&bytes.unwrap()).unwrap()
    }
}

/// Returns a list of vCPUs whose table has only free slots.
fn empty(object: &Object) -> Roll {
    Roll::new(Table::new(object, PLACES).unwrap(), true)
}

fn vm(pid: u64) -> VmProcess {
    VmProcess {
        pid: pid as u32,
        name: "web".into(),
        identity: Default::default(),
        vcpus: Vec::new(),
    }
}

/// Returns the name of a source, which must be defined in `reported`.
fn label(reported: &[Event], id: u32) -> String {
    let named = reported.iter().find_map(|event| match event {
        Event::Source(source) if source.id.0 == id => Some(source.name.to_string()),
        _ => None,
    });
    named.expect("a source is defined before its first use")
}
