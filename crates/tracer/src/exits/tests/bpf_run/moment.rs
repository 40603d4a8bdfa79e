//! An event in a stream, for the handlers and for the painter.

use super::harness::{Happens, SLEEPS};
use super::life::CPUS;

/// Thread that wakes the vCPUs.
const WAKER: u64 = 9;

/// An event, with its CPU and its time in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) at: u64,
    pub(super) cpu: u64,
    pub(super) what: What,
}

/// Kind and values of an event. Threads are given as numbers, and lengths in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    /// An NMI that ends now. The value is its length.
    Nmi(u64),
    /// A switch: the thread that leaves, the thread that comes, and how the first one leaves.
    Switch(u64, u64, Left),
    Waking(u64),
    /// A move of a thread to the CPU of the event. The second value has the thread that runs on
    /// each CPU.
    Migrate(u64, [u64; CPUS as usize]),
    /// The end of a halt: the thread, the length of the halt, and whether the thread slept.
    Halted(u64, u64, bool),
    RunLeave(u64),
    RunEnter(u64),
    Exit(u64, u64),
    Entry(u64),
    /// A switch without an event, which is rebuilt from the scheduler's data. The values are the
    /// thread that left, the thread that came, and the time of the switch.
    HiddenSwitch(u64, u64, u64),
}

/// State of a thread that leaves its CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Left {
    Preempted,
    Yielded,
    Slept,
}

impl Moment {
    /// Returns the event in the form for the handlers. Stores the event's values in `values`.
    pub(super) fn happens<'a>(&self, values: &'a mut [u64; 4]) -> Happens<'a> {
        let (name, said): (_, &[u64]) = match self.what {
            What::IrqEntry => ("irq_entry", &[]),
            What::IrqExit => ("irq_exit", &[]),
            What::SoftirqEntry => ("softirq_entry", &[3]),
            What::SoftirqExit => ("softirq_exit", &[3]),
            What::Nmi(ns) => ("nmi", &[ns]),
            What::Switch(prev, next, Left::Preempted) => ("switch", &[1, 0, prev, next]),
            What::Switch(prev, next, Left::Yielded) => ("switch", &[0, 0, prev, next]),
            What::Switch(prev, next, Left::Slept) => ("switch", &[0, SLEEPS, prev, next]),
            What::Waking(tid) => ("waking", &[tid, WAKER]),
            What::Migrate(tid, on) => {
                let on = on.iter().rev().fold(0, |all, tid| all << 16 | (tid + 1));
                ("migrate", &[tid, on])
            }
            What::Halted(tid, ns, slept) => ("halted", &[ns, u64::from(slept), tid]),
            What::RunLeave(tid) => ("run_leave", &[tid]),
            What::RunEnter(tid) => ("run_enter", &[tid]),
            What::Exit(tid, code) => ("exit", &[tid, code]),
            What::Entry(tid) => ("entry", &[tid]),
            What::HiddenSwitch(prev, next, at) => ("hidden_switch", &[prev, at, at, next]),
        };
        values[..said.len()].copy_from_slice(said);
        (name, self.cpu, self.at, &values[..said.len()])
    }
}
