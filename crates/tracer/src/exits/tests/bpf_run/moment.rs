//! An event of a stream, for the handlers and the painter.

use super::harness::{Happens, SLEEPS};
use super::life::CPUS;

/// The thread that wakes vCPUs.
const WAKER: u64 = 9;

/// An event, with its place and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) at: u64,
    pub(super) cpu: u64,
    pub(super) what: What,
}

/// Threads are numbers, lengths are in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    /// It took this long until now.
    Nmi(u64),
    /// From one thread to another, and how the first one left.
    Switch(u64, u64, Left),
    Waking(u64),
    /// To the CPU of the event; and who then runs on each CPU.
    Migrate(u64, [u64; CPUS as usize]),
    /// The thread, the length of its halt until now, and whether it slept.
    Halted(u64, u64, bool),
    RunLeave(u64),
    RunEnter(u64),
    Exit(u64, u64),
    Entry(u64),
    /// A switch that fired no event, rebuilt from the scheduler's data: the thread that left, the
    /// thread that came, and the time of the switch.
    HiddenSwitch(u64, u64, u64),
}

/// How a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Left {
    Preempted,
    Yielded,
    Slept,
}

impl Moment {
    /// Returns the event for the handlers. `values` holds its values.
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
