//! Tests of interrupts and softirqs: nesting, losses, and the CPUs that report.

use vmnoise_events::ActivityKind::{Blocked, Irq, Nmi, Softirq, Thread};
use vmnoise_events::InterferenceCounts;

use super::harness::{CPUS, Handlers, IDLE, PAGE, RUNNABLE, SLEEPS, VCPU};
use crate::wire::Mode;

#[test]
fn an_irq_in_a_softirq_in_a_thread() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
    it.softirq_entry(1, 1100, 3);
    it.irq_entry(1, 1200, 236, "timer");
    it.irq_entry(1, 1210, 251, "call");
    it.irq_exit(1, 1230, 251);
    it.run("test_nmi", 1, 1260, &[15]);
    it.irq_exit(1, 1300, 236);
    it.softirq_exit(1, 1500, 3);
    it.switch(1, 2000, 7, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Irq, 1, 1210, 1230, "call:251"),
            (Nmi, 1, 1245, 1260, "NMI"),
            (Irq, 1, 1200, 1300, "timer:236"),
            (Softirq, 1, 1100, 1500, "NET_RX:3"),
            (Thread, 1, 1000, 2000, "task:7"),
        ],
        0,
    );
    let one_of_each = InterferenceCounts {
        nmi: 1,
        irq: 2,
        softirq: 1,
        thread: 1,
    };
    assert_eq!(it.interference(1), one_of_each);
    assert_eq!(it.interference(2), InterferenceCounts::default());
}

#[test]
fn interference_counts_at_its_begin_and_whatever_becomes_of_it() {
    let it = Handlers::new(PAGE);
    let counted = || {
        let counts = it.interference(1);
        [counts.nmi, counts.irq, counts.softirq, counts.thread]
    };
    it.irq_entry(1, 100, 1, "lost");
    assert_eq!(counted(), [0, 1, 0, 0], "not when it ends");
    it.switch(1, 200, VCPU + 1, SLEEPS, 7);
    assert_eq!(counted(), [0, 1, 0, 1]);
    it.switch(1, 300, 7, SLEEPS, IDLE);
    it.switch(1, 400, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(
        counted(),
        [0, 1, 0, 1],
        "neither idle nor the thread itself"
    );
    it.switch(1, 500, VCPU + 1, RUNNABLE, 8);
    it.switch(1, 600, 9, RUNNABLE, VCPU + 1); // the switch from 8 to 9 was lost
    it.irq_exit(1, 650, 5);
    it.softirq_exit(1, 660, 5);
    assert_eq!(counted(), [0, 1, 0, 2], "an end counts nothing");
    it.expect(
        &[
            (Thread, 1, 200, 300, "task:7"),
            (Blocked, 1, 200, 400, "unknown"),
        ],
        3,
    );
}

#[test]
fn a_lost_irq_end_loses_one_interval() {
    let it = Handlers::new(PAGE);
    it.irq_entry(1, 100, 1, "outer");
    it.irq_entry(1, 110, 2, "lost");
    it.irq_exit(1, 200, 1);
    it.irq_entry(1, 300, 3, "next");
    it.irq_exit(1, 310, 3);
    it.expect(
        &[(Irq, 1, 100, 200, "outer:1"), (Irq, 1, 300, 310, "next:3")],
        1,
    );
}

#[test]
fn a_lost_irq_begin_loses_one_interval() {
    let it = Handlers::new(PAGE);
    it.irq_exit(1, 50, 9); // in progress when tracing began: no loss
    it.irq_entry(1, 100, 1, "outer");
    it.irq_exit(1, 150, 2);
    it.irq_exit(1, 200, 1);
    it.irq_exit(1, 250, 1);
    it.expect(&[(Irq, 1, 100, 200, "outer:1")], 2);
}

#[test]
fn a_switch_ends_the_memory_of_lost_ends() {
    let it = Handlers::new(PAGE);
    it.irq_entry(1, 100, 1, "lost");
    it.softirq_entry(1, 110, 1);
    it.switch(1, 200, VCPU + 1, RUNNABLE, 7);
    it.irq_exit(1, 300, 1);
    it.expect(&[], 3);
}

/// On PREEMPT_RT, a task in a softirq can be preempted. Each part of the softirq is reported, also
/// if the task is the measured thread.
#[test]
fn a_preempted_softirq_is_reported_in_parts() {
    let it = Handlers::new(PAGE);
    it.cpus.set_softirq_preemptible(1);
    it.softirq_entry(1, 100, 3);
    it.switch(1, 200, VCPU + 1, RUNNABLE, 7);
    it.switch(1, 300, 7, SLEEPS, VCPU + 1);
    it.softirq_exit(1, 450, 3);
    it.switch(1, 500, VCPU + 1, RUNNABLE, 8);
    it.softirq_entry(1, 510, 3);
    it.switch(1, 530, 8, RUNNABLE, 9);
    it.switch(1, 600, 9, SLEEPS, 8);
    it.softirq_exit(1, 640, 3);
    it.expect(
        &[
            (Softirq, 1, 100, 200, "NET_RX:3"),
            (Thread, 1, 200, 300, "task:7"),
            (Softirq, 1, 300, 450, "NET_RX:3"),
            (Softirq, 1, 510, 530, "NET_RX:3"),
            (Thread, 1, 500, 530, "task:8"),
            (Thread, 1, 530, 600, "task:9"),
            (Softirq, 1, 600, 640, "NET_RX:3"),
        ],
        0,
    );
    // Two softirqs, and the two parts after a return. The gap of each part has its own count.
    assert_eq!(it.interference(1).softirq, 4);
}

/// Another task's softirq replaces the interrupted one. So the end of the interrupted one is lost.
#[test]
fn a_preempted_softirq_ends_at_another_softirq() {
    let it = Handlers::new(PAGE);
    it.cpus.set_softirq_preemptible(1);
    it.softirq_entry(1, 100, 3);
    it.switch(1, 200, VCPU + 1, RUNNABLE, 7);
    it.softirq_entry(1, 210, 1);
    it.softirq_exit(1, 250, 1);
    it.switch(1, 300, 7, SLEEPS, VCPU + 1);
    it.softirq_exit(1, 450, 3);
    it.expect(
        &[
            (Softirq, 1, 100, 200, "NET_RX:3"),
            (Softirq, 1, 210, 250, "TIMER:1"),
            (Thread, 1, 200, 300, "task:7"),
        ],
        1,
    );
}

/// The return of the task was lost, so the end of its softirq has no begin. The task's next turn is
/// no part of the softirq.
#[test]
fn a_preempted_softirq_is_over_after_its_end() {
    let it = Handlers::new(PAGE);
    it.cpus.set_softirq_preemptible(1);
    it.softirq_entry(1, 100, 3);
    it.switch(1, 200, VCPU + 1, RUNNABLE, 7);
    it.softirq_exit(1, 350, 3);
    it.switch(1, 400, 7, SLEEPS, VCPU + 1);
    it.switch(1, 500, VCPU + 1, RUNNABLE, 8);
    it.switch(1, 600, 8, SLEEPS, VCPU + 1);
    it.expect(
        &[
            (Softirq, 1, 100, 200, "NET_RX:3"),
            (Thread, 1, 200, 400, "task:7"),
            (Thread, 1, 500, 600, "task:8"),
        ],
        1,
    );
}

#[test]
fn nesting_deeper_than_the_stack_is_counted() {
    let it = Handlers::new(PAGE);
    for depth in 0..10 {
        it.irq_entry(1, 100 + u64::from(depth), depth, "irq");
    }
    for depth in (0..10).rev() {
        it.irq_exit(1, 200 - u64::from(depth), depth);
    }
    assert_eq!(it.seen().len(), 8);
    assert_eq!(it.cpus.unpaired(), 4);
}

#[test]
fn a_softirq_that_is_another_is_no_pair() {
    let it = Handlers::new(PAGE);
    it.softirq_exit(1, 50, 1);
    it.softirq_entry(1, 100, 1);
    it.softirq_exit(1, 200, 9);
    it.softirq_entry(1, 300, 1);
    it.softirq_entry(1, 400, 9);
    it.softirq_exit(1, 500, 9);
    it.expect(&[(Softirq, 1, 400, 500, "RCU:9")], 2);
}

#[test]
fn two_cpus_do_not_mix() {
    let it = Handlers::new(PAGE);
    it.irq_entry(1, 100, 236, "timer");
    it.irq_entry(2, 110, 236, "timer");
    it.switch(3, 115, VCPU + 3, RUNNABLE, 7);
    it.irq_exit(1, 120, 236);
    it.switch(4, 125, VCPU + 4, RUNNABLE, 7);
    it.irq_exit(2, 130, 236);
    it.switch(4, 135, 7, RUNNABLE, VCPU + 4);
    it.switch(3, 145, 7, RUNNABLE, VCPU + 3);
    it.expect(
        &[
            (Irq, 1, 100, 120, "timer:236"),
            (Irq, 2, 110, 130, "timer:236"),
            (Thread, 4, 125, 135, "task:7"),
            (Thread, 3, 115, 145, "task:7"),
        ],
        0,
    );
}

#[test]
fn only_measured_cpus_report() {
    let it = Handlers::new(PAGE);
    it.cpus.set_mode(1, Mode::VMNOISE_TRACKED);
    it.cpus.set_mode(2, Mode::VMNOISE_OFF);
    for cpu in [1, 2] {
        it.irq_entry(cpu, 100, 236, "timer");
        it.irq_exit(cpu, 120, 236);
        it.irq_exit(cpu, 130, 236);
        it.softirq_entry(cpu, 140, 1);
        it.softirq_exit(cpu, 150, 1);
        it.switch(cpu, 160, VCPU + cpu, SLEEPS, 7);
        it.switch(cpu, 170, 7, RUNNABLE, VCPU + cpu);
        it.run("test_nmi", cpu, 180, &[5]);
        it.run_enter(cpu, 190);
        it.run_leave(cpu, 200);
        it.userspace_exit(cpu, 201);
        it.run_enter(cpu, 210);
    }
    it.run("test_irq_entry", CPUS, 300, &[1, 0]); // no such CPU
    it.expect(&[], 0);
    assert_eq!((it.counts.heavy(1), it.counts.heavy(2)), (0, 0));
    for cpu in [1, 2] {
        assert_eq!(it.interference(cpu), InterferenceCounts::default());
    }
}

#[test]
fn a_full_ring_is_a_counted_loss() {
    let it = Handlers::new(PAGE);
    for i in 0..100 {
        it.irq_entry(1, 1000 + 10 * i, 236, "timer");
        it.irq_exit(1, 1005 + 10 * i, 236);
    }
    let reported = it.seen().len() as u64;
    assert!(reported < 100, "a page holds all {reported} records");
    assert_eq!(reported + it.cpus.ring_full(), 100);
    assert_eq!(it.interference(1).irq, 100, "what is lost is counted");
}
