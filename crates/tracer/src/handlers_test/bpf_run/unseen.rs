//! Tests of switches that fire no tracepoint. They are rebuilt from the scheduler's accounting, if
//! it allows this.

use vmnoise_events::ActivityKind::{Blocked, Thread, Throttled};

use super::harness::{Handlers, IDLE, PAGE, RUNNABLE, SLEEPS, VCPU};

/// Times of a switch about which the scheduler's accounting shows nothing.
const UNKNOWN: (u64, u64) = (0, 0);

#[test]
fn both_turns_around_one_switch_are_reported() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
    it.after_unseen(1, 9000, (8, RUNNABLE, VCPU + 1), (3990, 4000));
    it.expect(
        &[
            (Thread, 1, 1000, 3990, "task:7"),
            (Thread, 1, 4000, 9000, "task:8"),
        ],
        0,
    );
}

#[test]
fn an_unseen_return_ends_the_turn_before_it() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
    it.after_unseen(1, 9000, (VCPU + 1, RUNNABLE, 8), (3990, 4000));
    it.switch(1, 9500, 8, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Thread, 1, 1000, 3990, "task:7"),
            (Thread, 1, 9000, 9500, "task:8"),
        ],
        0,
    );
}

#[test]
fn an_unseen_return_ends_the_sleep_at_its_wake() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
    it.wake(1, 2500, 42, 3);
    it.after_unseen(1, 9000, (VCPU + 1, RUNNABLE, 8), (3990, 4000));
    it.expect(
        &[
            (Thread, 1, 1000, 3990, "task:7"),
            (Blocked, 1, 1000, 2500, "waker:42"),
        ],
        0,
    );
}

#[test]
fn a_wait_goes_on_over_an_unseen_switch_between_two_others() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
    it.after_unseen(1, 9000, (8, SLEEPS, IDLE), (3990, 4000));
    it.switch(1, 9500, IDLE, RUNNABLE, VCPU + 1);
    it.expect(
        &[
            (Thread, 1, 1000, 3990, "task:7"),
            (Thread, 1, 4000, 9000, "task:8"),
            (Blocked, 1, 1000, 9500, "unknown"),
        ],
        0,
    );
}

#[test]
fn two_unseen_switches_leave_a_hole_that_is_nobodys() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
    it.after_unseen(1, 900_000, (8, RUNNABLE, VCPU + 1), (4000, 500_000));
    it.expect(
        &[
            (Thread, 1, 1000, 4000, "task:7"),
            (Thread, 1, 500_000, 900_000, "task:8"),
        ],
        1,
    );
}

/// A thread that slept all the time had no turn on the CPU. The scheduler's count of turns shows
/// this.
#[test]
fn a_sleep_goes_on_over_unseen_switches_of_which_nothing_is_known() {
    for (left_ns, came_ns) in [UNKNOWN, (4000, 500_000), (0, 500_000)] {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
        it.after_unseen_beside_vcpu(1, 900_000, (8, SLEEPS, IDLE), (left_ns, came_ns));
        it.switch(1, 950_000, IDLE, RUNNABLE, VCPU + 1);
        let blocked = it
            .seen()
            .into_iter()
            .filter(|reported| reported.0 == Blocked);
        let blocked: Vec<_> = blocked.map(|reported| (reported.2, reported.3)).collect();
        assert_eq!(blocked, [(1000, 950_000)]);
    }
}

#[test]
fn an_unseen_return_ends_the_sleep_whoever_had_the_cpu_before() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, SLEEPS, 7);
    it.wake(1, 2500, 42, 3);
    it.after_unseen_beside_vcpu(1, 9000, (VCPU + 1, RUNNABLE, 8), (0, 4000));
    it.switch(1, 9500, 8, RUNNABLE, VCPU + 1);
    let slept = (Blocked, 1, 1000, 2500, "waker:42");
    it.expect(&[slept, (Thread, 1, 9000, 9500, "task:8")], 1);
}

#[test]
fn an_unseen_departure_reports_neither_sleep_nor_wait() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, 7, RUNNABLE, VCPU + 1);
    it.after_unseen(1, 9000, (8, RUNNABLE, IDLE), (3990, 4000));
    it.switch(1, 9500, IDLE, RUNNABLE, VCPU + 1);
    it.expect(&[(Thread, 1, 4000, 9000, "task:8")], 1);
}

#[test]
fn the_begin_of_idle_is_in_no_book() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
    it.after_unseen(1, 9000, (IDLE, RUNNABLE, VCPU + 1), (3990, 0));
    it.expect(&[(Thread, 1, 1000, 3990, "task:7")], 1);
}

#[test]
fn what_is_unknown_or_no_time_between_the_seen_switches_is_not_reported() {
    for times in [UNKNOWN, (900, 950), (9000, 9000), (9100, 9200)] {
        let it = Handlers::new(PAGE);
        it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
        it.after_unseen(1, 9000, (8, RUNNABLE, IDLE), times);
        it.switch(1, 9500, IDLE, RUNNABLE, VCPU + 1);
        it.expect(&[], 1);
    }
}

#[test]
fn who_left_after_the_next_one_came_left_when_it_came() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
    it.after_unseen(1, 9000, (8, RUNNABLE, VCPU + 1), (5000, 4000));
    it.expect(
        &[
            (Thread, 1, 1000, 4000, "task:7"),
            (Thread, 1, 4000, 9000, "task:8"),
        ],
        0,
    );
}

#[test]
fn steal_around_an_unseen_switch_is_reported_once() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, 7);
    it.steal_ns.set(600);
    it.after_unseen(1, 9000, (8, RUNNABLE, VCPU + 1), (3990, 4000));
    assert_eq!(it.steals(), [(Thread, 0), (Thread, 600)]);
}

#[test]
fn after_an_unseen_departure_no_steal_is_reported() {
    let it = Handlers::new(PAGE);
    it.steal_ns.set(600);
    it.switch(1, 1000, 7, RUNNABLE, VCPU + 1);
    it.steal_ns.set(900);
    it.after_unseen(1, 9000, (8, RUNNABLE, VCPU + 1), (3990, 4000));
    assert_eq!(it.steals(), [(Thread, 0)]);
}

#[test]
fn idle_that_ended_unseen_throttled_nobody() {
    let it = Handlers::new(PAGE);
    it.switch(1, 1000, VCPU + 1, RUNNABLE, IDLE);
    it.after_unseen(1, 9000, (VCPU + 1, RUNNABLE, IDLE), (0, 4000));
    it.switch(1, 9500, IDLE, RUNNABLE, VCPU + 1);
    it.expect(&[(Throttled, 1, 9000, 9500, "idle")], 1);
}
