//! Tests of an observed thread. Events on other CPUs, or while the thread sleeps, are not reported.

use vmnoise_events::ActivityKind::{Irq, Nmi, Softirq, Thread, Throttled};

use super::harness::{Handlers, IDLE, PAGE, RUNNABLE, SLEEPS};
use crate::mapped::Whereabouts;

const TID: u32 = 100;

/// Returns handlers for one thread that may use CPUs 1 and 2.
fn handlers() -> Handlers {
    let it = Handlers::new(PAGE);
    for cpu in [1, 2] {
        it.cpus.set_vcpu(cpu, TID);
        it.cpus.set_observed(cpu);
    }
    it
}

fn found(it: &Handlers, cpu: u32) -> Whereabouts {
    it.cpus.whereabouts(cpu).unwrap()
}

fn wakeup(it: &Handlers, cpu: u32, now_ns: u64) {
    it.run("test_wakeup", cpu, now_ns, &[u64::from(TID)]);
}

fn migrate(it: &Handlers, cpu: u32, now_ns: u64, to_cpu: u32) {
    let values = [u64::from(TID), u64::from(to_cpu)];
    it.run("test_migrate", cpu, now_ns, &values);
}

#[test]
fn what_happens_while_it_is_elsewhere_is_not_reported() {
    let it = handlers();
    it.irq_entry(1, 1000, 236, "timer");
    it.irq_exit(1, 1100, 236);
    it.run("test_nmi", 1, 1200, &[50]);
    it.switch(1, 2000, 7, RUNNABLE, TID);
    it.irq_entry(1, 3000, 236, "timer");
    it.irq_exit(1, 3100, 236);
    it.irq_entry(2, 3000, 236, "timer");
    it.irq_exit(2, 3100, 236);
    it.switch(2, 3200, 8, SLEEPS, 9);
    it.switch(2, 3300, 9, SLEEPS, IDLE);
    it.run("test_nmi", 1, 4000, &[50]);
    it.expect(
        &[
            (Irq, 1, 3000, 3100, "timer:236"),
            (Nmi, 1, 3950, 4000, "NMI"),
        ],
        0,
    );
    assert!(found(&it, 1).runs && found(&it, 1).here_since_ns == 2000);
    assert_eq!(found(&it, 2).here_since_ns, 0);
}

#[test]
fn it_waits_from_its_wake_up_on_and_its_sleep_is_its_own() {
    let it = handlers();
    it.switch(1, 1000, 7, RUNNABLE, TID);
    it.switch(1, 2000, TID, SLEEPS, 7);
    assert_eq!(found(&it, 1).stays_ns, 1000);
    it.softirq_entry(1, 2500, 3);
    it.softirq_exit(1, 2600, 3);
    it.irq_entry(1, 4000, 236, "timer");
    it.wake(1, 4010, 42, 3);
    wakeup(&it, 1, 4050);
    it.irq_exit(1, 4200, 236);
    it.softirq_entry(1, 4300, 3);
    it.softirq_exit(1, 4400, 3);
    it.switch(1, 5000, 7, RUNNABLE, TID);
    it.switch(1, 9000, TID, SLEEPS, IDLE);
    it.expect(
        &[
            (Irq, 1, 4050, 4200, "timer:236"),
            (Softirq, 1, 4300, 4400, "NET_RX:3"),
            (Thread, 1, 4050, 5000, "task:7"),
        ],
        0,
    );
    assert_eq!(found(&it, 1).stays_ns, 1000 + 4950);
}

#[test]
fn an_idle_cpu_that_it_wakes_on_has_taken_nothing() {
    let it = handlers();
    it.switch(1, 1000, TID, SLEEPS, IDLE);
    it.wake(1, 4000, 42, 3);
    wakeup(&it, 1, 4050);
    it.switch(1, 4800, IDLE, RUNNABLE, TID);
    it.expect(&[], 0);
}

#[test]
fn idle_beside_it_while_it_is_runnable_is_throttling() {
    let it = handlers();
    it.switch(1, 1000, 7, RUNNABLE, TID);
    it.switch(1, 2000, TID, RUNNABLE, IDLE);
    it.switch(1, 5000, IDLE, RUNNABLE, TID);
    it.expect(&[(Throttled, 1, 2000, 5000, "idle")], 0);
}

#[test]
fn moved_while_it_waits_it_takes_the_wait_along() {
    let it = handlers();
    it.switch(1, 1000, 7, RUNNABLE, TID);
    it.switch(2, 1000, IDLE, RUNNABLE, 8);
    it.preempt(1, 2000, TID, RUNNABLE, 9);
    migrate(&it, 1, 3000, 2);
    // Both tasks continue to run, but only one of them still keeps the thread waiting.
    it.switch(2, 4000, 8, RUNNABLE, TID);
    it.switch(1, 6000, 9, SLEEPS, 7);
    it.irq_entry(1, 6100, 236, "timer");
    it.irq_exit(1, 6200, 236);
    it.expect(
        &[
            (Thread, 1, 2000, 3000, "task:9"),
            (Thread, 2, 3000, 4000, "task:8"),
        ],
        0,
    );
    assert_eq!(
        (found(&it, 1).stays_ns, found(&it, 1).here_since_ns),
        (2000, 0)
    );
    assert_eq!(found(&it, 2).here_since_ns, 3000);
}

#[test]
fn moved_while_it_sleeps_it_is_nowhere_until_it_wakes_up() {
    let it = handlers();
    it.switch(1, 1000, TID, SLEEPS, 7);
    it.switch(2, 1000, IDLE, RUNNABLE, 8);
    it.wake(1, 1900, 42, 3);
    migrate(&it, 1, 2000, 2);
    wakeup(&it, 2, 2100);
    it.switch(2, 3000, 8, RUNNABLE, TID);
    it.expect(&[(Thread, 2, 2100, 3000, "task:8")], 0);
    assert_eq!(found(&it, 1).here_since_ns, 0);
}

#[test]
fn another_thread_that_wakes_or_moves_is_none_of_ours() {
    let it = handlers();
    it.switch(1, 1000, 7, RUNNABLE, TID);
    it.run("test_wakeup", 2, 1500, &[8]);
    it.run("test_migrate", 1, 1600, &[8, 2]);
    assert_eq!(
        (found(&it, 1).here_since_ns, found(&it, 2).here_since_ns),
        (1000, 0)
    );
}

#[test]
fn steal_is_summed_up_while_it_is_here() {
    let it = handlers();
    it.steal_ns.set(500);
    it.switch(1, 1000, 7, RUNNABLE, TID);
    it.steal_ns.set(800);
    it.switch(1, 2000, TID, SLEEPS, IDLE);
    it.steal_ns.set(5000);
    wakeup(&it, 1, 4000);
    assert_eq!(
        (found(&it, 1).stays_ns, found(&it, 1).stays_steal_ns),
        (1000, 300)
    );
    assert_eq!(found(&it, 1).here_since_steal_ns, 5000);
}

#[test]
fn a_lost_switch_takes_it_away_until_it_is_seen_again() {
    let it = handlers();
    it.switch(1, 1000, 7, RUNNABLE, TID);
    it.switch(1, 2000, 8, RUNNABLE, 9); // lost: from the thread to 8
    it.switch(1, 3000, 9, RUNNABLE, TID);
    it.expect(&[], 1);
    assert_eq!(
        (found(&it, 1).stays_ns, found(&it, 1).here_since_ns),
        (1000, 3000)
    );
}

#[test]
fn what_user_space_finds_out_gives_way_to_what_events_report() {
    let it = handlers();
    it.cpus.set_here(1, 1000, 0);
    it.irq_entry(1, 900, 236, "timer");
    it.irq_exit(1, 1100, 236);
    it.cpus.set_here(1, 1200, 0);
    assert_eq!(found(&it, 1).here_since_ns, 1000);
    it.switch(1, 2000, TID, SLEEPS, IDLE);
    wakeup(&it, 1, 3000);
    it.cpus.unset_here(1, 1000);
    assert_eq!(
        (found(&it, 1).stays_ns, found(&it, 1).here_since_ns),
        (1000, 3000)
    );
    it.cpus.unset_here(1, 3000);
    assert_eq!(found(&it, 1).here_since_ns, 0);
    it.expect(&[(Irq, 1, 1000, 1100, "timer:236")], 0);
}
