//! Tests of steal time during activities. The steal clock at the ends of activities comes from the
//! test, like all other values.

use vmnoise_events::ActivityKind::{Blocked, Exit, Irq, Nmi, Softirq, Thread, Throttled, Vmm};

use super::harness::{Handlers, IDLE, PAGE, RUNNABLE, SLEEPS, VCPU};

const MS: u64 = 1_000_000;

#[test]
fn steal_inside_nested_work_is_in_all_that_hold_it() {
    let it = Handlers::new(PAGE);
    it.steal_ns.set(70 * MS);
    it.switch(1, MS, VCPU + 1, RUNNABLE, 7);
    it.steal_ns.set(71 * MS);
    it.softirq_entry(1, 3 * MS, 3);
    it.irq_entry(1, 4 * MS, 236, "timer");
    it.steal_ns.set(75 * MS);
    it.irq_exit(1, 9 * MS, 236);
    it.irq_entry(1, 10 * MS, 236, "timer");
    it.irq_exit(1, 11 * MS, 236);
    it.softirq_exit(1, 12 * MS, 3);
    it.steal_ns.set(77 * MS);
    it.switch(1, 20 * MS, 7, RUNNABLE, VCPU + 1);
    assert_eq!(
        it.steals(),
        [(Irq, 4 * MS), (Irq, 0), (Softirq, 4 * MS), (Thread, 7 * MS)]
    );
}

#[test]
fn a_sleep_that_ends_at_its_wake_holds_no_later_steal() {
    let it = Handlers::new(PAGE);
    it.switch(1, MS, VCPU + 1, SLEEPS, 7);
    it.steal_ns.set(MS);
    it.wake(1, 5 * MS, 42, 3);
    it.steal_ns.set(3 * MS);
    it.switch(1, 8 * MS, 7, SLEEPS, IDLE);
    it.steal_ns.set(7 * MS);
    it.switch(1, 13 * MS, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(
        it.steals(),
        [(Thread, 3 * MS), (Throttled, 4 * MS), (Blocked, MS)]
    );
}

#[test]
fn an_exit_holds_the_steal_since_the_first_host_work() {
    let it = Handlers::new(PAGE);
    it.run_enter(1, MS);
    it.entry(1, 2 * MS);
    it.irq_entry(1, 3 * MS, 236, "timer");
    it.steal_ns.set(MS);
    it.irq_exit(1, 5 * MS, 236);
    it.exit(1, 6 * MS);
    it.steal_ns.set(3 * MS);
    it.run_leave(1, 9 * MS);
    it.steal_ns.set(4 * MS);
    it.run_enter(1, 12 * MS);
    it.entry(1, 13 * MS);
    assert_eq!(it.steals(), [(Irq, MS), (Vmm, MS), (Exit, 4 * MS)]);
}

#[test]
fn an_nmi_reports_no_steal() {
    let it = Handlers::new(PAGE);
    it.steal_ns.set(MS);
    it.run("test_nmi", 1, 3 * MS, &[2 * MS]);
    assert_eq!(it.steals(), [(Nmi, 0)]);
}

#[test]
fn a_steal_clock_that_runs_backwards_reports_none() {
    let it = Handlers::new(PAGE);
    it.steal_ns.set(MS);
    it.irq_entry(1, 3 * MS, 236, "timer");
    it.steal_ns.set(MS - 1);
    it.irq_exit(1, 4 * MS, 236);
    assert_eq!(it.steals(), [(Irq, 0)]);
}

#[test]
fn the_clock_of_kvm_is_one_word_and_that_of_xen_the_sum_of_two() {
    let it = Handlers::new(PAGE);
    let sample = |xen, clock: [u64; 6]| {
        let mut values = vec![xen];
        values.extend(clock);
        it.run("test_steal_clock", 1, MS, &values);
        let (steal_ns, alive) = it.cpus.own_steal(1).unwrap();
        (steal_ns, alive == 1)
    };
    // Fields of KVM's structure: `steal`, `version` and flags.
    assert_eq!(sample(0, [70, 2, 5, 5, 5, 5]), (70, true));
    assert_eq!(sample(0, [0; 6]), (0, false));
    // Fields of Xen's structure: `state`, `state_entry_time`, and the times running, runnable,
    // blocked and offline.
    assert_eq!(sample(1, [1, 99, 1_000, 20, 300, 4]), (24, true));
    assert_eq!(sample(1, [2, 1, 0, 0, 0, 0]), (0, true));
    assert_eq!(sample(1, [0; 6]), (0, false));
}

/// KVM makes the version odd before it writes the clock, and even afterwards.
#[test]
fn a_steal_clock_that_is_being_written_is_not_read() {
    let it = Handlers::new(PAGE);
    let read = |steal_ns, version| {
        it.run("test_own_clock", 0, MS, &[steal_ns, version]);
        it.run("read_own_steal", 0, MS, &[]);
        it.cpus.own_steal(0)
    };
    assert_eq!(read(70, 2), Some((70, 2)));
    assert_eq!(read(90, 3), Some((70, 2)), "it is the clock as last read");
    assert_eq!(read(90, 4), Some((90, 4)));
}
