//! Tests of a watched thread that is stopped, or that a debugger holds.

use vmnoise_events::ActivityKind::{Irq, Stopped, Thread};

use super::harness::{Handlers, IDLE, PAGE, RUNNABLE, SLEEPS, STOPPED, TRACED, VCPU};

#[test]
fn nothing_is_reported_of_a_cpu_whose_thread_is_stopped() {
    for state in [STOPPED, TRACED] {
        let it = Handlers::new(PAGE);
        it.switch(1, 1_000, VCPU + 1, RUNNABLE, 7);
        it.switch(1, 2_000, 7, SLEEPS, VCPU + 1);
        let counted = it.interference(1);
        it.switch(1, 3_000, VCPU + 1, state, IDLE);
        // These are more activities than the ring buffer has room for.
        for turn in 0..100 {
            let at = 4_000 + turn * 100;
            it.irq_entry(1, at, 236, "timer");
            it.irq_exit(1, at + 10, 236);
            it.softirq_entry(1, at + 20, 1);
            it.softirq_exit(1, at + 30, 1);
            it.switch(1, at + 40, IDLE, RUNNABLE, 7);
            it.switch(1, at + 90, 7, SLEEPS, IDLE);
        }
        assert_eq!(it.cpus.held_since(1), Some(3_000));
        it.wake(1, 20_000, 42, 3);
        assert_eq!(it.interference(1), counted, "it does not poll");
        it.switch(1, 21_000, 8, SLEEPS, VCPU + 1);
        assert_eq!(it.cpus.held_since(1), None);
        it.irq_entry(1, 22_000, 236, "timer");
        it.irq_exit(1, 22_010, 236);
        it.switch(1, 23_000, VCPU + 1, RUNNABLE, 7);
        it.switch(1, 24_000, 7, SLEEPS, VCPU + 1);
        it.expect(
            &[
                (Thread, 1, 1_000, 2_000, "task:7"),
                (Stopped, 1, 3_000, 21_000, "unknown"),
                (Irq, 1, 22_000, 22_010, "timer:236"),
                (Thread, 1, 23_000, 24_000, "task:7"),
            ],
            0,
        );
    }
}

#[test]
fn who_is_preempted_on_the_way_to_its_stop_is_not_stopped_yet() {
    let it = Handlers::new(PAGE);
    it.preempt(1, 1_000, VCPU + 1, STOPPED, 7);
    it.switch(1, 2_000, 7, SLEEPS, VCPU + 1);
    it.switch(1, 2_100, VCPU + 1, STOPPED, IDLE);
    it.switch(1, 9_000, IDLE, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Thread, 1, 1_000, 2_000, "task:7"),
            (Stopped, 1, 2_100, 9_000, "unknown"),
        ],
        0,
    );
}

#[test]
fn a_thread_that_goes_on_unseen_is_measured_from_its_next_switch_on() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1_000, VCPU + 1, STOPPED, IDLE);
    // The thread came back in a switch that fired no event.
    it.switch(1, 9_000, VCPU + 1, RUNNABLE, 7);
    it.switch(1, 10_000, 7, SLEEPS, VCPU + 1);
    it.irq_entry(1, 11_000, 236, "timer");
    it.irq_exit(1, 11_010, 236);
    let counted = it.interference(1);
    assert_eq!((counted.thread, counted.irq), (1, 1));
    it.expect(
        &[
            (Thread, 1, 9_000, 10_000, "task:7"),
            (Irq, 1, 11_000, 11_010, "timer:236"),
        ],
        1,
    );
}
