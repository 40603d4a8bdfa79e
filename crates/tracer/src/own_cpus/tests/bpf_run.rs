//! Runs the handlers by BPF_PROG_RUN. All times and the steal clock come from the tests.

use std::cell::Cell;
use std::mem::offset_of;
use std::os::fd::AsFd;

use libbpf_rs::{Object, ObjectBuilder, ProgramInput};

use super::super::books::OwnCpuBooks;
use super::super::wire::{self, UNREAD, WireCpu};
use crate::gate::WaitLengths;
use crate::mapped_array::MappedArray;
use crate::maps::Maps;
use crate::plain;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/own_cpus_test.bpf.o"));

/// Events, in the order of their numbers in `bpf/own_cpus_test.bpf.c`.
#[derive(Debug, Clone, Copy)]
enum Happens {
    IrqEntry(u64),
    IrqExit(u64),
    SoftirqEntry,
    SoftirqExit,
    Switch,
    /// A task gets the CPU. The value is the time in ns at which the task became runnable.
    WaitedSince(u64),
}
use Happens::{IrqEntry, IrqExit, SoftirqEntry, SoftirqExit, Switch, WaitedSince};

struct Cpu {
    object: Object,
    cpus: MappedArray<WireCpu>,
    /// Value of the steal clock at the next events, in ns.
    steal_ns: Cell<u64>,
}

impl Cpu {
    /// Creates a CPU. `steal_ns` is its steal clock at the first event.
    fn new(steal_ns: u64) -> Cpu {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let mut maps = open.maps_mut();
        let settings = maps.find(|it| it.name().to_string_lossy().ends_with(".rodata"));
        let settings = settings.unwrap().set_initial_value(&wire::settings(false));
        settings.unwrap();
        drop(maps);
        let object = open.load().unwrap();
        let cpus = MappedArray::<WireCpu>::map(object.map("cpus").as_fd(), 1).unwrap();
        let until = cpus.u64(0, offset_of!(WireCpu, steal_until)).unwrap();
        until.store(UNREAD, std::sync::atomic::Ordering::Relaxed);
        Cpu {
            object,
            cpus,
            steal_ns: Cell::new(steal_ns),
        }
    }

    fn at(&self, now_ns: u64, what: Happens) -> &Cpu {
        let (number, id) = match what {
            IrqEntry(id) => (0, id),
            IrqExit(id) => (1, id),
            SoftirqEntry => (2, 0),
            SoftirqExit => (3, 0),
            Switch => (4, 0),
            WaitedSince(ns) => (5, ns),
        };
        let words = [number, now_ns, self.steal_ns.get(), id];
        let mut context: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        let input = ProgramInput {
            context_in: Some(&mut context),
            ..ProgramInput::default()
        };
        let program = self.object.progs_mut().next().unwrap();
        program.test_run(input).unwrap();
        self
    }

    fn stolen(&self, ns: u64) -> &Cpu {
        self.steal_ns.set(self.steal_ns.get() + ns);
        self
    }

    fn wire(&self) -> WireCpu {
        let words = self.cpus.words(0).unwrap().into_iter();
        plain::read(&words.flat_map(u64::to_ne_bytes).collect::<Vec<_>>()).unwrap()
    }

    fn books(&self) -> OwnCpuBooks {
        OwnCpuBooks::read(&self.wire(), true)
    }

    fn unpaired(&self) -> u64 {
        self.wire().unpaired
    }
}

fn lengths(ns: &[u64]) -> WaitLengths {
    ns.iter().copied().collect()
}

#[test]
fn each_advance_of_the_steal_clock_is_one_loss() {
    // Steal time before the first event does not count.
    let cpu = Cpu::new(5_000_000);
    cpu.at(100, Switch).at(200, Switch);
    assert_eq!(cpu.books().steal.lengths.count(), 0);
    cpu.stolen(70_000).at(80_000, SoftirqEntry);
    cpu.at(81_000, SoftirqExit);
    // Two losses between two readings count as one.
    cpu.stolen(1_000).stolen(2_000).at(90_000, IrqEntry(3));
    cpu.stolen(10).at(91_000, IrqExit(3));
    let steal = cpu.books().steal;
    assert_eq!(steal.ns, 73_010);
    assert_eq!(steal.lengths, lengths(&[70_000, 3_000, 10]));
}

#[test]
fn interrupts_are_net_of_steal_and_of_those_inside() {
    let cpu = Cpu::new(0);
    cpu.at(1_000, SoftirqEntry).at(2_000, IrqEntry(1));
    cpu.at(3_000, IrqEntry(2)).stolen(400);
    cpu.at(4_000, IrqExit(2)).at(6_000, IrqExit(1));
    cpu.stolen(50).at(10_000, SoftirqExit);
    let books = cpu.books();
    // The outer interrupt takes 4000 ns. The inner interrupt takes 1000 ns of this time, of which
    // 400 ns are steal time.
    assert_eq!(books.irq.lengths, lengths(&[600, 3_000]));
    assert_eq!(books.irq.ns, 3_600);
    assert_eq!(books.softirq.ns, 9_000 - 3_600 - 450);
    assert_eq!(books.steal.ns, 450);
    assert_eq!(cpu.unpaired(), 0);
}

#[test]
fn a_switch_ends_what_was_open() {
    let cpu = Cpu::new(0);
    // As on PREEMPT_RT, the softirq ends at the switch. The rest of the time is the thread's.
    cpu.at(1_000, SoftirqEntry).at(1_500, Switch);
    cpu.at(9_000, SoftirqExit);
    assert_eq!(cpu.books().softirq.lengths, lengths(&[500]));
    assert_eq!(cpu.unpaired(), 0);
    // The end of this interrupt was lost.
    cpu.at(10_000, IrqEntry(1)).at(11_000, Switch);
    assert_eq!((cpu.books().irq.ns, cpu.unpaired()), (0, 1));
    cpu.at(12_000, IrqEntry(2)).at(12_700, IrqExit(2));
    assert_eq!((cpu.books().irq.ns, cpu.unpaired()), (700, 1));
}

#[test]
fn an_interrupt_that_began_before_counting_is_no_loss() {
    let cpu = Cpu::new(0);
    cpu.at(1_000, IrqExit(1)).at(2_000, SoftirqExit);
    assert_eq!(cpu.unpaired(), 0);
    // Interrupts nest deeper than there is room for. Begins without room are counted as unpaired.
    for id in 0..5 {
        cpu.at(3_000 + id, IrqEntry(id));
    }
    assert_eq!(cpu.unpaired(), 1);
}

#[test]
fn a_wait_is_as_long_as_the_queue_had_the_task() {
    let cpu = Cpu::new(0);
    cpu.at(5_000, WaitedSince(3_000))
        .at(7_000, WaitedSince(7_000));
    // The clock of another run queue may be slightly ahead.
    cpu.at(8_000, WaitedSince(8_100));
    let waits = cpu.books().waits.unwrap();
    assert_eq!(waits.ns, 2_000);
    assert_eq!(waits.lengths, lengths(&[2_000, 0, 0]));
}
