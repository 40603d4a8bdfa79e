//! Simulates two CPUs and some threads with given events.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use libbpf_rs::{Object, ObjectBuilder, ProgramInput};
use vmnoise_events::{FamilyBooks, FamilyWaits};

use super::super::super::settings;
use super::super::super::wire::{WireBooks, WireCpu};
use crate::mapped_array::MappedArray;
use crate::maps::Maps;
use crate::object::compiled;
use crate::plain::{self, Plain};

compiled!("family_test");
use generated::types::family_thread as WireThread;

impl Plain for WireThread {}

/// Events, in the order of their numbers in `bpf/family_test.bpf.c`.
#[derive(Debug, Clone, Copy)]
pub enum Happens {
    /// The first thread leaves the CPU in the given way, and the second thread gets the CPU.
    Switch(u64, u64, Leaves),
    /// A thread is woken or created. The flag is true if the thread is already on a CPU.
    Wakes(u64, bool),
    /// A waiting thread is moved to a CPU. The values are the thread and the CPU.
    Moves(u64, u64),
    IrqEntry(u64),
    IrqExit(u64),
    SoftirqEntry,
    SoftirqExit,
    /// An NMI. The value is its length in ns.
    Nmi(u64),
}

/// State of a thread that leaves its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    Preempted = 0,
    Sleeps = 1,
    Throttled = 2,
    Dies = 8 | 1,
}

/// The idle task.
pub const IDLE: u64 = 0;

pub struct HarnessMachine {
    object: Object,
    cpus: MappedArray<WireCpu>,
    threads: MappedArray<WireThread>,
    /// Steal clock of each CPU at the next events, in ns.
    pub steal_ns: Cell<[u64; 2]>,
    /// Waiting time of the family in ns, by the task that had the CPU.
    blamed: Cell<BTreeMap<u64, u64>>,
}

impl HarnessMachine {
    pub fn new() -> HarnessMachine {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let mut maps = open.maps_mut();
        let given = maps.find(|it| it.name().to_string_lossy().ends_with(".rodata"));
        given.unwrap().set_initial_value(&settings(false)).unwrap();
        drop(maps);
        let object = open.load().unwrap();
        let cpus = MappedArray::map(object.map("cpus").as_fd(), 4).unwrap();
        let threads = MappedArray::map(object.map("threads").as_fd(), 16).unwrap();
        HarnessMachine {
            object,
            cpus,
            threads,
            steal_ns: Cell::default(),
            blamed: Cell::default(),
        }
    }

    /// Makes an event happen on this CPU at this time.
    pub fn at(&self, cpu: u64, now_ns: u64, what: Happens) -> &HarnessMachine {
        use Happens::*;
        let (number, prev, next, flags, to) = match what {
            Switch(prev, next, leaves) => (0, prev, next, leaves as u64, 0),
            Wakes(thread, on_cpu) => (1, thread, 0, u64::from(on_cpu) * 4, 0),
            Moves(thread, to) => (2, thread, 0, 0, to),
            IrqEntry(id) => (3, id, 0, 0, 0),
            IrqExit(id) => (4, id, 0, 0, 0),
            SoftirqEntry => (5, 0, 0, 0, 0),
            SoftirqExit => (6, 0, 0, 0, 0),
            Nmi(ns) => (7, 0, ns, 0, 0),
        };
        let clocks = self.steal_ns.get();
        let (steal_ns, to_steal_ns) = (clocks[cpu as usize], clocks[to as usize]);
        let words = [
            number,
            cpu,
            now_ns,
            steal_ns,
            prev,
            next,
            flags,
            to,
            to_steal_ns,
        ];
        let mut context: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        let input = ProgramInput {
            context_in: Some(&mut context),
            ..ProgramInput::default()
        };
        let programs = &mut self.object.progs_mut();
        let ran = programs.next().unwrap().test_run(input).unwrap();
        if ran.return_value > 0 {
            let mut blamed = self.blamed.take();
            *blamed.entry(prev).or_default() += u64::from(ran.return_value);
            self.blamed.set(blamed);
        }
        self
    }

    pub fn stolen(&self, cpu: usize, ns: u64) -> &HarnessMachine {
        let mut steal_ns = self.steal_ns.get();
        steal_ns[cpu] += ns;
        self.steal_ns.set(steal_ns);
        self
    }

    /// Makes another CPU take or release the lock of this CPU. `is`: whether the lock is taken.
    pub fn locked(&self, cpu: u32, is: bool) -> &HarnessMachine {
        let lock = self.cpus.u32(cpu, offset_of!(WireCpu, lock)).unwrap();
        lock.store(u32::from(is), Ordering::Relaxed);
        self
    }

    fn read<Slot: Plain>(slots: &MappedArray<Slot>, at: u32) -> Slot {
        let words = slots.words(at).unwrap().into_iter();
        plain::read(&words.flat_map(u64::to_ne_bytes).collect::<Vec<_>>()).unwrap()
    }

    pub fn cpu(&self, cpu: u32) -> WireCpu {
        HarnessMachine::read(&self.cpus, cpu)
    }

    /// Returns the times of a thread so far. Checks that they add up.
    pub fn books(&self, thread: u32) -> FamilyBooks {
        let wire = HarnessMachine::read(&self.threads, thread);
        let words = wire.books;
        let read = WireBooks {
            wall: wire.since - wire.first,
            ran: words.ran,
            irq: words.irq,
            softirq: words.softirq,
            nmi: words.nmi,
            steal: words.steal,
            waited: words.waited,
            waited_own: words.waited_own,
            throttled: words.throttled,
            asleep: words.asleep,
            unseen: words.unseen,
            unsure: words.unsure,
            ..WireBooks::default()
        };
        let books = FamilyBooks::from(&read);
        assert_eq!(books.parts(), books.wall_ns, "thread {thread}: {books:?}");
        books
    }

    /// Returns the sum of the times of threads that have ended.
    pub fn ended(&self) -> FamilyBooks {
        let mut all = FamilyBooks::default();
        for cpu in 0..2 {
            all.add(&FamilyBooks::from(&self.cpu(cpu).ended));
        }
        all
    }

    pub fn waits(&self) -> FamilyWaits {
        let mut waits = FamilyWaits::default();
        for cpu in 0..2 {
            self.cpu(cpu).add_waits(&mut waits);
        }
        waits
    }

    /// Returns the waiting time in ns for which each task is blamed.
    pub fn blamed(&self) -> BTreeMap<u64, u64> {
        let blamed = self.blamed.take();
        self.blamed.set(blamed.clone());
        blamed
    }

    pub fn unpaired(&self) -> u64 {
        (0..2).map(|cpu| self.cpu(cpu).unpaired).sum()
    }
}
