//! Compares the counts of random lives on two CPUs with the true history of each CPU.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::harness::Happens::*;
use super::harness::Leaves::*;
use super::harness::{HarnessMachine, IDLE};

/// FAMILY_WAIT of `bpf/family.h`.
const WAIT: usize = 0;
/// Number of threads of the family. They have the numbers from 1 on.
const THREADS: usize = 4;
/// Number of the first task outside the family. The others follow.
const OTHERS: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Nothing,
    Sleeps,
    Waits(usize),
    Runs(usize),
    IsThrottled,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spent {
    ran: u64,
    irq: u64,
    steal: u64,
    waited: u64,
    own: u64,
    asleep: u64,
    throttled: u64,
}

/// The true state of the simulated machine.
struct Truth {
    now: u64,
    has: [u64; 2],
    does: [Does; THREADS],
    spent: [Spent; THREADS],
    blamed: BTreeMap<u64, u64>,
    idle: u64,
    stolen_waits: u64,
    /// Time in ns for which each thread has been kept from running since it last ran or slept.
    kept: [u64; THREADS],
    longest_wait: u64,
}

fn is_own(who: u64) -> bool {
    (1..OTHERS).contains(&who)
}

impl Truth {
    /// Lets `ns` pass. The hypervisor takes `stolen` of it from each CPU. `interrupted` is the CPU
    /// that is in an interrupt, if any.
    fn pass(&mut self, ns: u64, stolen: [u64; 2], interrupted: Option<usize>) {
        self.now += ns;
        let each = self.does.iter().zip(&mut self.spent).zip(&mut self.kept);
        for ((does, spent), kept) in each {
            match *does {
                Does::Nothing => {}
                Does::Sleeps => spent.asleep += ns,
                Does::IsThrottled => {
                    spent.throttled += ns;
                    *kept += ns;
                }
                Does::Runs(cpu) => {
                    spent.steal += stolen[cpu];
                    let rest = ns - stolen[cpu];
                    match interrupted == Some(cpu) {
                        true => spent.irq += rest,
                        false => spent.ran += rest,
                    }
                }
                Does::Waits(cpu) if is_own(self.has[cpu]) => spent.own += ns,
                Does::Waits(cpu) => {
                    spent.waited += ns;
                    *kept += ns;
                    self.stolen_waits += stolen[cpu];
                    let rest = ns - stolen[cpu];
                    match self.has[cpu] {
                        IDLE => self.idle += rest,
                        who => *self.blamed.entry(who).or_default() += rest,
                    }
                }
            }
        }
    }
}

impl Truth {
    /// Notes that a thread of the family gets a CPU after a wait.
    fn comes(&mut self, thread: usize) {
        self.longest_wait = self.longest_wait.max(self.kept[thread]);
        self.kept[thread] = 0;
    }
}

/// A step: its kind, two numbers that select the thread and the CPU, the time before the step in
/// ns, and the percentage of steal time in it.
type Step = (u8, usize, usize, u64, u64);

fn live(steps: &[Step]) {
    let machine = HarnessMachine::new();
    let mut truth = Truth {
        now: 1_000,
        has: [OTHERS, OTHERS + 1],
        does: [Does::Nothing; THREADS],
        spent: [Spent::default(); THREADS],
        blamed: BTreeMap::new(),
        idle: 0,
        stolen_waits: 0,
        kept: [0; THREADS],
        longest_wait: 0,
    };
    for cpu in 0..2 {
        let comes = Switch(IDLE, truth.has[cpu], Preempted);
        machine.at(cpu as u64, truth.now, comes);
    }
    let pass = |truth: &mut Truth, ns: u64, percent: u64, interrupted| {
        let stolen = [ns * percent / 100, ns * (percent / 2) / 100];
        truth.pass(ns, stolen, interrupted);
        machine.stolen(0, stolen[0]).stolen(1, stolen[1]);
    };
    for &(what, which, other, ns, percent) in steps {
        pass(&mut truth, ns, percent, None);
        let (thread, cpu) = (which % THREADS, other % 2);
        let number = thread as u64 + 1;
        match what {
            0 | 1 if matches!(truth.does[thread], Does::Nothing | Does::Sleeps) => {
                machine.at(cpu as u64, truth.now, Wakes(number, false));
                truth.does[thread] = Does::Waits(cpu);
            }
            2 => {
                if let Does::Waits(from) = truth.does[thread] {
                    machine.at(from as u64, truth.now, Moves(number, 1 - from as u64));
                    truth.does[thread] = Does::Waits(1 - from);
                }
            }
            3 => {
                let id = u64::from(which as u8);
                machine.at(cpu as u64, truth.now, IrqEntry(id));
                pass(&mut truth, ns / 2, percent, Some(cpu));
                machine.at(cpu as u64, truth.now, IrqExit(id));
            }
            _ => {
                let ready = |does: &Does| {
                    *does == Does::Waits(cpu) || *does == Does::IsThrottled && which % 3 == 0
                };
                let next = match which % 8 {
                    0 => IDLE,
                    1 => OTHERS + other as u64,
                    _ => truth
                        .does
                        .iter()
                        .position(ready)
                        .map_or(IDLE, |it| it as u64 + 1),
                };
                let prev = truth.has[cpu];
                if next == prev {
                    continue;
                }
                let leaves = [Preempted, Sleeps, Throttled][other % 3];
                machine.at(cpu as u64, truth.now, Switch(prev, next, leaves));
                truth.has[cpu] = next;
                if is_own(prev) {
                    truth.does[prev as usize - 1] = match leaves {
                        Preempted => Does::Waits(cpu),
                        Sleeps | Dies => Does::Sleeps,
                        Throttled => Does::IsThrottled,
                    };
                }
                if is_own(next) {
                    truth.comes(next as usize - 1);
                    truth.does[next as usize - 1] = Does::Runs(cpu);
                }
            }
        }
    }
    // At the end, each running thread leaves its CPU, and each waiting thread gets a CPU. So all
    // time is counted.
    for cpu in 0..2 {
        let prev = truth.has[cpu];
        machine.at(cpu as u64, truth.now, Switch(prev, OTHERS + 9, Sleeps));
        truth.has[cpu] = OTHERS + 9;
    }
    for thread in 0..THREADS {
        if let Does::Waits(cpu) = truth.does[thread] {
            let number = thread as u64 + 1;
            machine.at(cpu as u64, truth.now, Switch(OTHERS + 9, number, Sleeps));
            truth.comes(thread);
            machine.at(cpu as u64, truth.now, Switch(number, OTHERS + 9, Sleeps));
        }
    }
    for thread in 0..THREADS {
        let books = machine.books(thread as u32 + 1);
        let mut expected = truth.spent[thread];
        // A sleep or throttling is counted only when it ends.
        match truth.does[thread] {
            Does::Sleeps => expected.asleep = books.asleep_ns,
            Does::IsThrottled => expected.throttled = books.throttled_ns,
            _ => {}
        }
        let spent = Spent {
            ran: books.ran_ns,
            irq: books.irq_ns,
            steal: books.steal_ns,
            waited: books.waited_ns,
            own: books.waited_own_ns,
            asleep: books.asleep_ns,
            throttled: books.throttled_ns,
        };
        assert_eq!(spent, expected, "thread {}", thread + 1);
        assert_eq!((books.unseen_ns, books.nmi_ns), (0, 0));
    }
    truth.blamed.retain(|_, ns| *ns > 0);
    assert_eq!(machine.blamed(), truth.blamed);
    assert_eq!(machine.waits().idle_ns, truth.idle);
    assert_eq!(machine.waits().steal_ns, truth.stolen_waits);
    assert_eq!(machine.waits().unnamed_ns, 0);
    assert_eq!(machine.unpaired(), 0);
    let longest = (0..2).map(|cpu| machine.cpu(cpu).longest[WAIT].ns).max();
    assert_eq!(longest, Some(truth.longest_wait));
}

#[test]
fn every_nanosecond_has_the_owner_that_it_had() {
    let step = (0..8_u8, 0..24_usize, 0..6_usize, 0..5_000_u64, 0..60_u64);
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::with_cases(64), rng);
    runner
        .run(&vec(step, 1..60), |steps| {
            live(&steps);
            Ok(())
        })
        .unwrap();
}
