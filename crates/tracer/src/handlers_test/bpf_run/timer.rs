//! Tests of the times of a periodic task's wake-up: which events set one of these times.

use std::sync::atomic::Ordering::Relaxed;

use super::harness::{Handlers, IDLE, PAGE, RUNNABLE, SLEEPS, VCPU};

/// Address of the timer by which the task sleeps.
const TIMER: u64 = 0xffff_8880_0000_1000;
const EXPIRY_NS: u64 = 5_000;

/// Returns when the timer was armed, when its interrupt began, when the task was woken, and when it
/// was switched in. Times are in ns; 0: no event showed this.
fn steps(it: &Handlers, cpu: u32) -> [u64; 4] {
    let slot = it.cpus.timer(cpu).unwrap();
    [
        &slot.armed_mono_ns,
        &slot.irq_mono_ns,
        &slot.waking_mono_ns,
        &slot.switch_mono_ns,
    ]
    .map(|word| word.load(Relaxed))
}

/// Returns the steal clock before the expiry, when the timer was armed, and at the later times of
/// [`steps`].
fn steals(it: &Handlers, cpu: u32) -> [u64; 5] {
    let slot = it.cpus.timer(cpu).unwrap();
    [
        &slot.before_steal_ns,
        &slot.armed_steal_ns,
        &slot.irq_steal_ns,
        &slot.waking_steal_ns,
        &slot.switch_steal_ns,
    ]
    .map(|word| word.load(Relaxed))
}

/// Requests a wake-up of the task of CPU 1 at this time, as the task does in user space.
fn ask(it: &Handlers, expiry_ns: u64) {
    let slot = it.cpus.timer(1).unwrap();
    for step in [
        &slot.armed_mono_ns,
        &slot.irq_mono_ns,
        &slot.waking_mono_ns,
        &slot.switch_mono_ns,
    ] {
        step.store(0, Relaxed);
    }
    slot.expiry_mono_ns.store(expiry_ns, Relaxed);
}

fn arm(it: &Handlers, now_ns: u64, address: u64, expires_ns: u64) {
    let thread = u64::from(VCPU + 1);
    it.run(
        "test_timer_start",
        1,
        now_ns,
        &[thread, address, expires_ns],
    );
}

fn expire(it: &Handlers, cpu: u32, now_ns: u64, address: u64) {
    it.run("test_timer_expire", cpu, now_ns, &[address]);
}

/// Returns handlers after the task requested a wake-up, armed the timer and fell asleep.
fn asleep() -> Handlers {
    let it = Handlers::new(PAGE);
    ask(&it, EXPIRY_NS);
    arm(&it, 1_000, TIMER, EXPIRY_NS);
    it.switch(1, 1_100, VCPU + 1, SLEEPS, IDLE);
    it
}

#[test]
fn each_step_is_reported_once_and_the_sleep_is_nobodys_doing() {
    let it = asleep();
    it.irq_entry(1, 5_010, 236, "timer");
    expire(&it, 1, 5_020, TIMER);
    it.wake(1, 5_030, 42, 1);
    it.irq_exit(1, 5_040, 236);
    it.switch(1, 5_100, IDLE, RUNNABLE, VCPU + 1);
    // The task is switched out and in again. The time of its first switch stays the same.
    it.switch(1, 5_200, VCPU + 1, RUNNABLE, IDLE);
    it.wake(1, 5_250, 42, 1);
    it.switch(1, 5_300, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steps(&it, 1), [1_000, 5_020, 5_030, 5_100]);
    let kinds = it.seen().into_iter().map(|seen| seen.0);
    assert!(
        !kinds
            .collect::<Vec<_>>()
            .contains(&vmnoise_events::ActivityKind::Blocked)
    );
}

#[test]
fn the_next_period_begins_anew() {
    let it = asleep();
    expire(&it, 1, 5_020, TIMER);
    it.wake(1, 5_030, 42, 1);
    it.switch(1, 5_100, IDLE, RUNNABLE, VCPU + 1);
    ask(&it, 2 * EXPIRY_NS);
    assert_eq!(steps(&it, 1), [0; 4]);
    arm(&it, 6_000, TIMER, 2 * EXPIRY_NS);
    it.switch(1, 6_100, VCPU + 1, SLEEPS, IDLE);
    expire(&it, 1, 10_007, TIMER);
    it.wake(1, 10_008, 42, 1);
    it.switch(1, 10_009, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steps(&it, 1), [6_000, 10_007, 10_008, 10_009]);
}

#[test]
fn other_timers_are_none_of_ours() {
    let it = Handlers::new(PAGE);
    ask(&it, EXPIRY_NS);
    // The task's own timer with another expiry, and a timer of another thread with the right
    // expiry.
    arm(&it, 900, TIMER, EXPIRY_NS + 1);
    it.run("test_timer_start", 1, 950, &[7, TIMER, EXPIRY_NS]);
    assert_eq!(steps(&it, 1), [0; 4]);
    arm(&it, 1_000, TIMER, EXPIRY_NS);
    expire(&it, 1, 5_010, TIMER + 64);
    assert_eq!(steps(&it, 1), [1_000, 0, 0, 0]);
    expire(&it, 1, 5_020, TIMER);
    // The timer has expired. A second expiry belongs to another timer at the same address.
    expire(&it, 1, 5_030, TIMER);
    arm(&it, 5_040, TIMER, EXPIRY_NS);
    assert_eq!(steps(&it, 1), [1_000, 5_020, 0, 0]);
}

#[test]
fn a_wake_before_the_expiry_is_a_kick() {
    let it = asleep();
    it.wake(1, 3_000, 42, 1);
    it.switch(1, 3_100, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steps(&it, 1), [1_000, 0, 0, 0]);
    // The task continues to sleep with the same timer, which is armed again.
    arm(&it, 3_200, TIMER, EXPIRY_NS);
    it.switch(1, 3_300, VCPU + 1, SLEEPS, IDLE);
    expire(&it, 1, 5_020, TIMER);
    it.wake(1, 5_030, 42, 1);
    it.switch(1, 5_100, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steps(&it, 1), [3_200, 5_020, 5_030, 5_100]);
}

#[test]
fn an_expiry_that_wakes_nobody_has_no_further_steps() {
    let it = Handlers::new(PAGE);
    ask(&it, EXPIRY_NS);
    arm(&it, 5_100, TIMER, EXPIRY_NS);
    // A timer that is armed late expires before the task sleeps. So the task is neither woken nor
    // switched in.
    expire(&it, 1, 5_110, TIMER);
    it.switch(1, 5_200, 7, RUNNABLE, IDLE);
    assert_eq!(steps(&it, 1), [5_100, 5_110, 0, 0]);
}

#[test]
fn after_a_step_that_was_missed_the_later_ones_are_not_guessed() {
    let it = asleep();
    it.wake(1, 5_030, 42, 1);
    it.switch(1, 5_100, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steps(&it, 1), [1_000, 0, 0, 0], "no expiry");

    let it = asleep();
    expire(&it, 1, 5_020, TIMER);
    it.switch(1, 5_100, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steps(&it, 1), [1_000, 5_020, 0, 0], "no wake");

    let it = Handlers::new(PAGE);
    ask(&it, EXPIRY_NS);
    expire(&it, 1, 5_020, TIMER);
    it.wake(1, 5_030, 42, 1);
    it.switch(1, 5_100, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steps(&it, 1), [0; 4], "never armed");
}

#[test]
fn what_happens_to_the_task_elsewhere_is_no_step_of_either_cpu() {
    let it = asleep();
    // The kernel moved the task's timer to another CPU, because the timer's CPU went offline.
    expire(&it, 2, 5_020, TIMER);
    let thread = u64::from(VCPU + 1);
    it.run("test_timer_start", 2, 5_030, &[thread, TIMER, EXPIRY_NS]);
    it.switch(2, 5_100, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steps(&it, 1), [1_000, 0, 0, 0]);
    assert_eq!(steps(&it, 2), [0; 4]);
}

#[test]
fn steal_is_that_of_the_last_event_before_the_expiry_and_of_each_step() {
    let it = Handlers::new(PAGE);
    ask(&it, EXPIRY_NS);
    it.steal_ns.set(10);
    arm(&it, 1_000, TIMER, EXPIRY_NS);
    it.steal_ns.set(20);
    it.switch(1, 1_100, VCPU + 1, SLEEPS, IDLE);
    it.steal_ns.set(30);
    it.irq_entry(1, 4_000, 236, "timer");
    it.irq_exit(1, 4_100, 236);
    assert_eq!(steals(&it, 1)[0], 30);
    it.steal_ns.set(700);
    it.irq_entry(1, 5_700, 236, "timer");
    it.steal_ns.set(710);
    expire(&it, 1, 5_710, TIMER);
    it.steal_ns.set(711);
    it.wake(1, 5_712, 42, 1);
    it.irq_exit(1, 5_720, 236);
    it.steal_ns.set(730);
    it.switch(1, 5_730, IDLE, RUNNABLE, VCPU + 1);
    assert_eq!(steals(&it, 1), [30, 10, 710, 711, 730]);
}

/// The same numbers are used for the task in `workload/src/timer/task.rs`, and for explain in
/// `explain/tests/wakeups.rs`.
#[test]
fn steal_before_a_timer_is_armed_late_is_told_from_that_after_it() {
    let it = Handlers::new(PAGE);
    ask(&it, EXPIRY_NS);
    it.steal_ns.set(30);
    it.irq_entry(1, 4_000, 236, "timer");
    it.irq_exit(1, 4_100, 236);
    it.steal_ns.set(4_030);
    arm(&it, 9_000, TIMER, EXPIRY_NS);
    it.steal_ns.set(4_130);
    expire(&it, 1, 9_200, TIMER);
    assert_eq!(steps(&it, 1)[..2], [9_000, 9_200]);
    assert_eq!(steals(&it, 1)[..3], [30, 4_030, 4_130]);
}
