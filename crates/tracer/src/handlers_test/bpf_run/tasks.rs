//! Tests of tasks: turns on the CPU, sleeps and their wakers, and throttling.

use vmnoise_events::ActivityKind::{Blocked, Thread, Throttled};

use super::harness::{Handlers, IDLE, PAGE, RUNNABLE, SLEEPS, VCPU, source};
use crate::wire::{Mode, Origin};

#[test]
fn a_sleep_with_only_idle_ends_when_the_vcpu_runs() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
    it.wake(1, 5000, 42, 3);
    it.switch(1, 5080, IDLE, RUNNABLE, VCPU + 1);
    it.expect(&[(Blocked, 1, 1000, 5080, "waker:42")], 0);
}

#[test]
fn a_sleep_before_another_task_ends_at_the_wake() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
    it.wake(1, 5000, 42, 3);
    it.switch(1, 8000, 7, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Thread, 1, 1000, 8000, "task:7"),
            (Blocked, 1, 1000, 5000, "waker:42"),
        ],
        0,
    );
}

#[test]
fn a_wake_before_a_throttled_wait_splits_three_ways() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
    it.wake(1, 5000, 42, 3);
    it.switch(1, 8000, 7, SLEEPS, IDLE);
    it.switch(1, 9000, IDLE, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Thread, 1, 1000, 8000, "task:7"),
            (Throttled, 1, 8000, 9000, "idle"),
            (Blocked, 1, 1000, 5000, "waker:42"),
        ],
        0,
    );
}

#[test]
fn a_sleep_whose_waker_went_unseen_has_no_name() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
    it.wake(1, 2000, 42, 3);
    it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
    it.switch(1, 4000, VCPU + 1, SLEEPS, IDLE);
    it.switch(1, 5000, IDLE, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Blocked, 1, 1000, 3000, "waker:42"),
            (Blocked, 1, 4000, 5000, "unknown"),
        ],
        0,
    );
}

#[test]
fn a_wake_from_an_interrupt_names_the_interrupt() {
    let it = Handlers::new(PAGE);
    it.cpus.set_mode(3, Mode::VMNOISE_TRACKED);
    it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
    it.irq_entry(3, 1900, 236, "timer");
    it.wake(1, 2000, 42, 3);
    it.irq_exit(3, 2100, 236);
    it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
    it.switch(1, 4000, VCPU + 1, SLEEPS, IDLE);
    it.softirq_entry(3, 4100, 4);
    it.wake(1, 4500, 42, 3);
    it.switch(1, 5000, IDLE, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Blocked, 1, 1000, 3000, "timer:236"),
            (Blocked, 1, 4000, 5000, "BLOCK:4"),
        ],
        0,
    );
}

/// An interrupt of higher priority may interrupt the handler of another one.
#[test]
fn a_wake_from_nested_interrupts_names_the_innermost() {
    let it = Handlers::new(PAGE);
    it.cpus.set_mode(3, Mode::VMNOISE_TRACKED);
    it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
    it.irq_entry(3, 1800, 34, "eth0");
    it.irq_entry(3, 1900, 236, "timer");
    it.wake(1, 2000, 42, 3);
    it.irq_exit(3, 2050, 236);
    it.irq_exit(3, 2100, 34);
    it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
    it.expect(&[(Blocked, 1, 1000, 3000, "timer:236")], 0);
}

#[test]
fn a_wake_of_another_thread_is_none_of_ours() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, IDLE);
    let [id, name] = source(Origin::VMNOISE_FROM_TASK, 42, "waker");
    it.run("test_waking", 1, 2000, &[id, name, 7, 3]);
    it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
    it.expect(&[(Blocked, 1, 1000, 3000, "unknown")], 0);
}

#[test]
fn idle_beside_a_runnable_vcpu_is_throttling() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, IDLE);
    it.switch(1, 1500, IDLE, RUNNABLE, 7);
    it.switch(1, 1700, 7, SLEEPS, IDLE);
    it.switch(1, 2000, IDLE, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Throttled, 1, 1000, 1500, "idle"),
            (Thread, 1, 1500, 1700, "task:7"),
            (Throttled, 1, 1700, 2000, "idle"),
        ],
        0,
    );
}

#[test]
fn preempted_on_the_way_to_sleep_is_still_runnable() {
    let it = Handlers::new(PAGE);
    it.preempt(1, 1000, VCPU + 1, SLEEPS, 7);
    it.switch(1, 1500, 7, SLEEPS, VCPU + 1);
    it.expect(&[(Thread, 1, 1000, 1500, "task:7")], 0);
}

#[test]
fn idle_without_a_waiting_vcpu_is_nothing() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, 7, SLEEPS, IDLE); // the vCPU's thread was never seen
    it.switch(1, 1500, IDLE, RUNNABLE, 7);
    it.switch(1, 1600, 7, SLEEPS, VCPU + 1);
    it.switch(1, 1700, VCPU + 1, SLEEPS, IDLE);
    it.switch(1, 1800, IDLE, RUNNABLE, 8);
    it.switch(1, 1900, 8, SLEEPS, IDLE);
    it.expect(
        &[
            (Thread, 1, 1500, 1600, "task:7"),
            (Thread, 1, 1800, 1900, "task:8"),
        ],
        0,
    );
}

#[test]
fn a_lost_switch_blames_nobody() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
    it.switch(1, 1500, 8, RUNNABLE, VCPU + 1); // lost: from 7 to 8
    it.switch(1, 2000, VCPU + 1, RUNNABLE, IDLE);
    it.switch(1, 2500, 7, RUNNABLE, IDLE); // lost: from idle to 7, perhaps with the vCPU in between
    it.switch(1, 3000, IDLE, RUNNABLE, VCPU + 1);
    it.expect(&[], 2);
}
