//! Runs the handlers by BPF_PROG_RUN on a stream of events, and reads their counts.

use std::cell::RefCell;
use std::os::fd::AsFd;

use libbpf_rs::{Object, ObjectBuilder, ProgramInput};

use crate::gate::pieces::{LostPieces, Rings};
use crate::gate::state::VcpuThreadState;
use crate::gate::wire::{self, WireVcpu};
use crate::gate::{GateVcpuId, VcpuBooks};
use crate::mapped_array::MappedArray;
use crate::maps::Maps;
use crate::plain::{self, Plain};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate_test.bpf.o"));

/// Number of slots for vCPUs. Slot numbers begin at 1.
pub(super) const VCPUS: u32 = 7;
/// Shortest length of waits that are reported, in ns.
pub(super) const TOLD_FROM_NS: u64 = 500;
/// Number of pieces that each CPU keeps. No test has more pieces.
pub(super) const PIECES: u32 = 4096;
/// Number of events in one run: ROOM of `bpf/gate_test.bpf.c`.
const ROOM: usize = 64;

/// Number of words of `struct happened` in `bpf/gate_test.bpf.c`.
const WORDS: usize = 18;

/// A task that has a CPU or gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Idle,
    /// A task with this letter as its name. If it is a capital letter, the task is a real-time
    /// task.
    Task(u8),
    /// The vCPU in this slot. If the slot number is even, the vCPU is a real-time task.
    Vcpu(u32),
    /// A task with the same name as the vCPU in this slot.
    Namesake(u32),
    /// A task that no event showed.
    Unseen,
}

impl Who {
    pub(super) fn tid(self) -> u64 {
        match self {
            Who::Idle => 0,
            Who::Task(letter) => 1000 + u64::from(letter),
            Who::Vcpu(place) => 100 + u64::from(place),
            Who::Namesake(place) => 500 + u64::from(place),
            Who::Unseen => u32::MAX.into(),
        }
    }

    fn place(self) -> u64 {
        match self {
            Who::Vcpu(place) => place.into(),
            Who::Idle | Who::Task(_) | Who::Namesake(_) | Who::Unseen => 0,
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Who::Idle => "idle".to_owned(),
            Who::Task(letter) => char::from(letter).to_string(),
            Who::Vcpu(place) | Who::Namesake(place) => format!("vcpu{place}"),
            Who::Unseen => String::new(),
        }
    }

    pub(super) fn is_urgent(self) -> bool {
        match self {
            Who::Task(letter) => letter.is_ascii_uppercase(),
            Who::Vcpu(place) => place.is_multiple_of(2),
            Who::Idle | Who::Namesake(_) | Who::Unseen => false,
        }
    }

    pub(super) fn is_ordinary(self) -> bool {
        !self.is_urgent() && self != Who::Unseen
    }

    fn comm(self) -> u64 {
        let mut letters = [0; 8];
        let name = self.name();
        letters[..name.len()].copy_from_slice(name.as_bytes());
        u64::from_ne_bytes(letters)
    }
}

/// One event. Times are in ns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Happens {
    /// `prev` leaves the CPU, and `next` gets it. If `prev` is a vCPU, its new state is `state`.
    Switch {
        cpu: u32,
        now: u64,
        prev: Who,
        state: VcpuThreadState,
        throttled: bool,
        /// Total time in ns for which the groups of `prev` and `next` have been throttled so far.
        throttles: u64,
        next: Who,
    },
    /// The vCPU is woken, and waits for this CPU.
    Wakes {
        cpu: u32,
        now: u64,
        vcpu: u32,
        throttled: bool,
    },
    /// The waiting vCPU moves from `cpu` to `to`. `runs` has `cpu`.
    Moves {
        cpu: u32,
        now: u64,
        vcpu: u32,
        to: u32,
        runs: Who,
    },
    /// A walk finds the vCPU in this process for the first time. The vCPU gets this id.
    Begins {
        now: u64,
        vcpu: u32,
        tgid: u64,
        id: u32,
        has_cpu: bool,
    },
    /// A walk finds the vCPU again. `is_ready`: whether the vCPU has a CPU or is on a run queue.
    Confirms {
        now: u64,
        vcpu: u32,
        has_cpu: bool,
        is_ready: bool,
    },
    /// The vCPU leaves a CPU without an event.
    LeavesUnseen { vcpu: u32 },
}

impl Happens {
    /// Returns the words of `struct happened` of `bpf/gate_test.bpf.c`; `None` if no event fires.
    /// `left` has the number of times that the thread in each slot has left a CPU.
    fn sent(self, left: &mut [u64]) -> Option<[u64; WORDS]> {
        if let Happens::Switch {
            prev: Who::Vcpu(vcpu),
            ..
        }
        | Happens::LeavesUnseen { vcpu } = self
        {
            left[vcpu as usize] += 1;
        }
        let mut words = self.words()?;
        let count = |place: u64| left[place as usize];
        let [.., of_vcpu, of_next, _, _] = &mut words;
        (*of_vcpu, *of_next) = (count(*of_vcpu), count(*of_next));
        Some(words)
    }

    /// Returns the words of [`Happens::sent`], with slot numbers in place of the numbers of
    /// departures.
    fn words(self) -> Option<[u64; WORDS]> {
        let vcpu = |place| Who::Vcpu(place).place();
        let urgent = |who: Who| u64::from(who.is_urgent());
        Some(match self {
            Happens::Switch {
                cpu,
                now,
                prev,
                state,
                throttled,
                throttles,
                next,
            } => [
                0,
                cpu.into(),
                now,
                prev.place(),
                prev.tid(),
                prev.tid(),
                prev.comm(),
                next.place(),
                state as u64,
                throttled.into(),
                throttles,
                prev.is_ordinary().into(),
                urgent(prev),
                0,
                prev.place(),
                next.place(),
                0,
                0,
            ],
            Happens::Wakes {
                cpu,
                now,
                vcpu: place,
                throttled,
            } => [
                1,
                cpu.into(),
                now,
                vcpu(place),
                0,
                0,
                0,
                0,
                0,
                throttled.into(),
                0,
                0,
                urgent(Who::Vcpu(place)),
                0,
                place.into(),
                0,
                0,
                0,
            ],
            Happens::Moves {
                cpu,
                now,
                vcpu: place,
                to,
                runs,
            } => [
                2,
                cpu.into(),
                now,
                vcpu(place),
                runs.tid(),
                runs.tid(),
                runs.comm(),
                runs.place(),
                0,
                0,
                0,
                runs.is_ordinary().into(),
                0,
                to.into(),
                0,
                0,
                0,
                0,
            ],
            Happens::Begins {
                now,
                vcpu: place,
                tgid,
                id,
                has_cpu,
            } => [
                3,
                0,
                now,
                vcpu(place),
                0,
                tgid,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                id.into(),
                place.into(),
                0,
                has_cpu.into(),
                0,
            ],
            Happens::Confirms {
                now,
                vcpu: place,
                has_cpu,
                is_ready,
            } => {
                let mut words = [0; WORDS];
                words[0] = 4;
                words[2] = now;
                words[3] = vcpu(place);
                words[14..].copy_from_slice(&[place.into(), 0, has_cpu.into(), is_ready.into()]);
                words
            }
            Happens::LeavesUnseen { .. } => return None,
        })
    }
}

/// A stream of events in the layout that the test program expects.
#[derive(Clone, Copy)]
struct Sent([u64; 1 + ROOM * WORDS]);

impl Plain for Sent {}

#[derive(Debug)]
pub(super) struct Handlers {
    object: Object,
    /// Number of pieces that each CPU keeps.
    room: u32,
    /// Number of times that the thread in each slot has left a CPU.
    left: RefCell<Vec<u64>>,
}

impl Handlers {
    /// Creates handlers. Each CPU keeps `room` pieces.
    pub(super) fn new(room: u32) -> Handlers {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name.ends_with(".rodata") {
                map.set_initial_value(&wire::settings(TOLD_FROM_NS, room.into()))
                    .unwrap();
            } else if name == "gate_pieces" {
                map.set_max_entries((VCPUS + 1) * room).unwrap();
            }
        }
        let object = open.load().unwrap();
        let handlers = Handlers {
            object,
            room,
            left: RefCell::default(),
        };
        handlers.reset();
        handlers
    }

    /// Clears all state. Afterwards the id of each vCPU is its slot number until `Begins`.
    pub(super) fn reset(&self) {
        self.left.replace(vec![0; VCPUS as usize + 1]);
        for place in 0..=VCPUS {
            let vcpu = WireVcpu {
                id: place,
                ..WireVcpu::default()
            };
            self.object
                .set("gate_vcpus", place, plain::bytes(&vcpu))
                .unwrap();
            let cpu = vec![0; size_of::<wire::WireCpu>()];
            self.object.set("gate_cpus", place, &cpu).unwrap();
        }
    }

    /// Runs the events. Returns the times of each vCPU whose slot another vCPU gets, ordered by
    /// time.
    pub(super) fn happen(&self, events: &[Happens]) -> Vec<VcpuBooks> {
        let mut ended = Vec::new();
        for stretch in events.chunk_by(|_, next| !matches!(next, Happens::Begins { .. })) {
            if let Happens::Begins { vcpu, .. } = stretch[0] {
                ended.push(self.books(vcpu));
                self.free(vcpu);
            }
            self.run(stretch);
        }
        ended
    }

    /// Frees a slot in the same way as the gate.
    fn free(&self, place: u32) {
        let nothing = WireVcpu::default();
        self.object
            .set("gate_vcpus", place, plain::bytes(&nothing))
            .unwrap();
    }

    /// Makes all states unknown in the same way as the gate, for a pause that began at `paused_ns`.
    pub(super) fn forget(&self, paused_ns: u64) {
        for place in 1..=VCPUS {
            let mut wire: WireVcpu = self.object.value("gate_vcpus", place).unwrap().unwrap();
            if wire.first > 0 {
                wire.forget(paused_ns);
                self.object
                    .set("gate_vcpus", place, plain::bytes(&wire))
                    .unwrap();
            }
            let cpu = vec![0; size_of::<wire::WireCpu>()];
            self.object.set("gate_cpus", place, &cpu).unwrap();
        }
        let cpu = vec![0; size_of::<wire::WireCpu>()];
        self.object.set("gate_cpus", 0, &cpu).unwrap();
    }

    fn run(&self, events: &[Happens]) {
        let mut left = self.left.borrow_mut();
        let events = events.iter().filter_map(|event| event.sent(&mut left));
        let events: Vec<[u64; WORDS]> = events.collect();
        for part in events.chunks(ROOM) {
            let mut sent = Sent([0; 1 + ROOM * WORDS]);
            sent.0[0] = part.len() as u64;
            for (words, event) in sent.0[1..].chunks_exact_mut(WORDS).zip(part) {
                words.copy_from_slice(event);
            }
            self.object.set("stream", 0, plain::bytes(&sent)).unwrap();
            let mut programs = self.object.progs_mut();
            let program = programs.find(|it| it.name() == "test_stream").unwrap();
            program.test_run(ProgramInput::default()).unwrap();
        }
    }

    pub(super) fn books(&self, place: u32) -> VcpuBooks {
        let wire: WireVcpu = self.object.value("gate_vcpus", place).unwrap().unwrap();
        assert_eq!(wire.writes % 2, 0, "nobody writes any more");
        VcpuBooks::read(&wire)
    }

    /// Returns the reported pieces that were not overwritten.
    pub(super) fn pieces(&self) -> LostPieces {
        let cpus = VCPUS as usize + 1;
        let pieces = MappedArray::map(
            self.object.map("gate_pieces").as_fd(),
            cpus * self.room as usize,
        );
        let rings = Rings::new(pieces.unwrap(), self.room);
        let cpus = MappedArray::map(self.object.map("gate_cpus").as_fd(), cpus);
        rings.read(&cpus.unwrap())
    }

    /// Returns the number of vCPUs that wait for each CPU.
    pub(super) fn waiting(&self) -> Vec<u32> {
        let waiting = |cpu| {
            let wire: wire::WireCpu = self.object.value("gate_cpus", cpu).unwrap().unwrap();
            wire.waiting
        };
        (0..=VCPUS).map(waiting).collect()
    }
}

/// Returns the culprits' names and times in ns, ordered by name.
pub(super) fn named(books: &VcpuBooks) -> Vec<(String, u64)> {
    let mut named: Vec<_> = books
        .culprits
        .iter()
        .map(|culprit| (culprit.name.to_string(), culprit.ns))
        .collect();
    named.sort();
    named
}

/// Returns the id of a culprit.
pub(super) fn id(number: u32) -> GateVcpuId {
    GateVcpuId(number)
}
