//! Event streams with a known owner of every nanosecond.

use std::collections::BTreeMap;

use super::harness::Happens::*;
use super::harness::Leaves::*;
use super::harness::{HarnessMachine, IDLE};

/// Task outside the family. [`ANOTHER`] is a second one.
const OTHER: u64 = 1000;
const ANOTHER: u64 = 1001;

#[test]
fn a_wait_is_held_against_who_had_the_cpu() {
    let machine = HarnessMachine::new();
    // The thread is created while another task runs for 300 ns more. The next task then runs for
    // 200 ns.
    machine
        .at(0, 900, Switch(IDLE, OTHER, Preempted))
        .at(0, 1_000, Wakes(1, false))
        .at(0, 1_300, Switch(OTHER, ANOTHER, Preempted))
        .at(0, 1_500, Switch(ANOTHER, 1, Sleeps))
        .at(0, 2_500, Switch(1, IDLE, Sleeps))
        .at(0, 4_000, Wakes(1, false))
        .at(0, 4_040, Switch(IDLE, 1, Sleeps))
        .at(0, 4_140, Switch(1, IDLE, Dies));
    assert_eq!(
        machine.blamed(),
        BTreeMap::from([(OTHER, 300), (ANOTHER, 200)])
    );
    let books = machine.books(1);
    assert_eq!(books.waited_ns, 540);
    assert_eq!((books.ran_ns, books.asleep_ns), (1_100, 1_500));
    assert_eq!(machine.waits().idle_ns, 40);
    assert_eq!(machine.ended().waited_ns, 540);
    assert_eq!((machine.ended().threads, machine.unpaired()), (1, 0));
    let longest = machine.cpu(0).longest[0];
    assert_eq!((longest.ns, longest.until), (500, 1_500));
}

#[test]
fn a_thread_of_the_family_is_no_culprit() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 100, Wakes(1, false))
        .at(0, 110, Switch(IDLE, 1, Sleeps))
        .at(0, 200, Wakes(2, false))
        .at(0, 500, Switch(1, 2, Preempted))
        .at(0, 900, Switch(2, OTHER, Preempted))
        .at(0, 1_000, Switch(OTHER, 1, Preempted));
    // Thread 2 waited for thread 1, and then ran. Afterwards both waited for another task.
    let (one, two) = (machine.books(1), machine.books(2));
    assert_eq!((one.waited_own_ns, one.waited_ns), (400, 10 + 100));
    assert_eq!((two.waited_own_ns, two.waited_ns), (300, 0));
    assert_eq!(machine.blamed(), BTreeMap::from([(OTHER, 200)]));
    machine.at(0, 1_100, Switch(1, 2, Dies));
    assert_eq!(machine.books(2).waited_ns, 100);
}

#[test]
fn who_moves_leaves_each_cpu_its_part() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 50, Switch(IDLE, OTHER, Preempted))
        .at(1, 60, Switch(IDLE, ANOTHER, Preempted))
        .at(0, 100, Wakes(1, false))
        .at(0, 400, Moves(1, 1))
        .at(0, 450, Switch(OTHER, IDLE, Sleeps))
        .at(1, 1_000, Switch(ANOTHER, 1, Sleeps))
        .at(1, 1_200, Switch(1, IDLE, Dies));
    assert_eq!(
        machine.blamed(),
        BTreeMap::from([(OTHER, 300), (ANOTHER, 600)])
    );
    let books = machine.books(1);
    assert_eq!((books.waited_ns, books.ran_ns), (900, 200));
    // A wait stays one wait, even if the thread is moved several times.
    assert_eq!(machine.cpu(1).longest[0].ns, 900);
}

#[test]
fn who_was_moved_away_has_waited_for_whom_it_left() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 50, Switch(IDLE, OTHER, Preempted))
        .at(0, 100, Wakes(1, false))
        .at(0, 400, Moves(1, 1))
        .at(1, 400, Switch(IDLE, 1, Sleeps));
    assert_eq!(machine.waits().unnamed_ns, 300);
    // No thread of the family waits for this CPU at the end of this turn or during the next turn.
    machine
        .at(0, 450, Switch(OTHER, ANOTHER, Preempted))
        .at(0, 900, Switch(ANOTHER, IDLE, Sleeps));
    assert_eq!(machine.blamed(), BTreeMap::from([(OTHER, 300)]));
    assert_eq!(machine.waits().unnamed_ns, 0);
}

#[test]
fn what_interrupts_is_not_what_runs() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 100, Wakes(1, false))
        .at(0, 100, Switch(IDLE, 1, Sleeps))
        .at(0, 200, IrqEntry(3))
        .stolen(0, 30)
        .at(0, 300, IrqExit(3))
        .at(0, 300, SoftirqEntry)
        .at(0, 320, IrqEntry(4))
        .at(0, 330, IrqExit(4))
        .at(0, 350, SoftirqExit)
        .at(0, 400, Nmi(7))
        .stolen(0, 100)
        .at(0, 1_000, Switch(1, IDLE, Sleeps))
        // No thread of the family runs here, so an interrupt takes nothing from the family.
        .at(0, 1_100, IrqEntry(3))
        .at(0, 1_200, IrqExit(3));
    let books = machine.books(1);
    assert_eq!((books.irq_ns, books.softirq_ns), (70 + 10, 40));
    assert_eq!((books.nmi_ns, books.steal_ns), (7, 130));
    assert_eq!(books.ran_ns, 900 - 80 - 40 - 7 - 130);
}

/// An interrupt takes the CPU from a thread, then a softirq, and then the task that the softirq
/// woke.
#[test]
fn what_is_taken_behind_one_another_is_one_piece() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 100, Wakes(1, false))
        .at(0, 100, Switch(IDLE, 1, Sleeps))
        // This interrupt is a separate piece, because the thread runs for more than 5 us after it.
        .at(0, 10_000, IrqEntry(3))
        .at(0, 30_000, IrqExit(3))
        .at(0, 60_000, IrqEntry(3))
        .at(0, 70_000, IrqExit(3))
        .at(0, 71_000, SoftirqEntry)
        .at(0, 80_000, SoftirqExit)
        .at(0, 82_000, Switch(1, OTHER, Preempted))
        .at(0, 100_000, Switch(OTHER, 1, Sleeps))
        .at(0, 101_000, IrqEntry(3))
        .at(0, 106_000, IrqExit(3))
        .at(0, 200_000, Switch(1, IDLE, Sleeps));
    // The lengths are 10, 9, 18 and 5 us. The thread's own running time between them is not
    // included.
    assert_eq!(machine.cpu(0).longest_piece, 42_000);
}

/// After all threads have ended, the largest time taken from one thread is still known.
#[test]
fn who_lost_most_is_known_after_the_end() {
    let machine = HarnessMachine::new();
    for (thread, begin, wait) in [(1, 1_000, 300), (2, 10_000, 900), (3, 20_000, 20)] {
        machine
            .at(0, begin, Switch(IDLE, OTHER, Sleeps))
            .at(0, begin, Wakes(thread, false))
            .at(0, begin + wait, Switch(OTHER, thread, Sleeps))
            .at(0, begin + wait + 100, Switch(thread, IDLE, Dies));
    }
    assert_eq!(machine.ended().waited_ns, 1_220);
    assert_eq!(machine.cpu(0).most_of_one, 900);
}

#[test]
fn what_the_hypervisor_had_the_task_before_had_not() {
    let machine = HarnessMachine::new();
    machine
        .stolen(0, 5_000)
        .at(0, 100, Switch(IDLE, OTHER, Preempted))
        .at(0, 200, Wakes(1, false))
        .stolen(0, 60)
        .at(0, 300, Switch(OTHER, 1, Preempted));
    assert_eq!(machine.blamed(), BTreeMap::from([(OTHER, 40)]));
    assert_eq!(machine.waits().steal_ns, 60);
    assert_eq!(machine.books(1).waited_ns, 100);
}

#[test]
fn a_quota_is_nobodys_turn() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 100, Wakes(1, false))
        .at(0, 100, Switch(IDLE, 1, Sleeps))
        .at(0, 200, Switch(1, OTHER, Throttled))
        .at(0, 5_200, Switch(OTHER, 1, Sleeps));
    let books = machine.books(1);
    assert_eq!((books.throttled_ns, books.waited_ns), (5_000, 0));
    assert!(machine.blamed().is_empty());
    assert_eq!(machine.cpu(0).longest[0].ns, 5_000);
}

#[test]
fn a_departure_that_was_missed_is_unknown_and_blames_nobody() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 100, Wakes(1, false))
        .at(0, 100, Switch(IDLE, 1, Sleeps))
        // Thread 1 leaves the CPU to `OTHER` without an event, and waits. Another thread of the
        // family waits too.
        .at(0, 300, Wakes(2, false))
        .at(0, 900, Switch(OTHER, 1, Sleeps))
        .at(0, 1_000, Switch(1, 2, Sleeps));
    let one = machine.books(1);
    assert_eq!((one.unseen_ns, one.ran_ns), (800, 100));
    assert!(machine.blamed().is_empty(), "{:?}", machine.blamed());
    assert_eq!(machine.waits().doubtful_ns, 600);
    assert_eq!(machine.unpaired(), 1);
}

#[test]
fn an_arrival_that_was_missed_is_unknown_since_the_last_turn() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 50, Switch(IDLE, OTHER, Preempted))
        .at(0, 100, Wakes(1, false))
        .at(0, 400, Switch(OTHER, ANOTHER, Preempted))
        // Thread 1 comes to the CPU without an event, and leaves.
        .at(0, 900, Switch(1, IDLE, Sleeps));
    let books = machine.books(1);
    assert_eq!((books.waited_ns, books.unseen_ns), (300, 500));
    assert_eq!(machine.blamed(), BTreeMap::from([(OTHER, 300)]));
    assert_eq!(machine.waits().unnamed_ns, 0);
    // The known part of this wait counts as a wait.
    let longest = machine.cpu(0).longest[0];
    assert_eq!((longest.ns, longest.until), (300, 400));
    machine
        .at(0, 950, Wakes(1, false))
        .at(0, 990, Switch(IDLE, 1, Sleeps));
    assert_eq!(machine.books(1).waited_ns, 340);
}

#[test]
fn a_wake_up_after_a_missed_departure_begins_a_wait() {
    let machine = HarnessMachine::new();
    machine
        .at(0, 100, Wakes(1, false))
        .at(0, 100, Switch(IDLE, 1, Sleeps))
        // A wake-up of a thread that runs has no effect.
        .at(0, 150, Wakes(1, true))
        .at(1, 500, Wakes(1, false))
        .at(1, 600, Switch(IDLE, 1, Sleeps));
    let books = machine.books(1);
    assert_eq!((books.unseen_ns, books.waited_ns), (400, 100));
}

#[test]
fn whose_fork_was_missed_is_none_of_the_family() {
    let machine = HarnessMachine::new();
    // Thread 1 creates thread 1000, and no event shows this. Thread 1000 thus counts as a task
    // outside the family.
    machine
        .at(0, 100, Wakes(1, false))
        .at(0, 100, Switch(IDLE, 1, Sleeps))
        .at(0, 200, Switch(1, OTHER, Preempted))
        .at(0, 300, Switch(OTHER, 1, Sleeps));
    assert_eq!(machine.blamed(), BTreeMap::from([(OTHER, 100)]));
}

/// A hypervisor may take the CPU from the holder of the lock. In this case each event is counted,
/// the holder keeps the lock, and no wait is lost.
#[test]
fn a_lock_that_cannot_be_had_is_counted_and_stays_whose_it_is() {
    let machine = HarnessMachine::new();
    let contended = || machine.cpu(0).contended;
    machine
        .at(0, 50, Switch(IDLE, OTHER, Preempted))
        .locked(0, true)
        .at(0, 100, Wakes(1, false))
        .at(0, 400, Switch(OTHER, 1, Preempted));
    assert_eq!((contended(), machine.cpu(0).lock), (2, 1));
    assert_eq!(machine.books(1).waited_ns, 300);
    machine.locked(0, false).at(0, 500, Switch(1, IDLE, Sleeps));
    assert_eq!((contended(), machine.cpu(0).lock), (2, 0));
    // No waiting thread is left, so the next task on the CPU is not blamed.
    assert_eq!(machine.cpu(0).waiting, 0);
}
