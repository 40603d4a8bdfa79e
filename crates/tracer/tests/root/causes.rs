//! Tests that activities with known causes are reported completely, with the names of their causes.

use std::{fs, time::Duration};

use vmnoise_events::{ActivityKind, LossKind};
use vmnoise_tracer::{Scope, Tracer};

use super::harness::{Disturber, Reported, alone, pin, two_cpus};

/// Returns how long a thread of this process has had a CPU, in ns, by the scheduler's accounting
/// (Documentation/scheduler/sched-stats.rst).
fn on_cpu_ns(tid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn loss(tracer: &Tracer, kind: LossKind) -> u64 {
    tracer
        .losses()
        .into_iter()
        .find(|loss| loss.kind == kind)
        .unwrap()
        .count
}

#[test]
fn known_causes_are_reported_within_a_second() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    pin(other);
    let disturber = Disturber::on(cpu, "known-cause");
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    tracer.attach().unwrap();
    let mut reported = Reported::default();
    reported.drain_for(&mut tracer, Duration::from_secs(1));
    let thread = format!("known-cause:{}", disturber.tid);
    assert!(
        reported.named(ActivityKind::Thread, &thread).count() > 20,
        "{:?}",
        reported.names
    );
    let timer = if cfg!(target_arch = "x86_64") {
        "local_timer:236"
    } else {
        "arch_timer"
    };
    assert!(
        reported.names.iter().any(|name| name.starts_with(timer)),
        "{:?}",
        reported.names
    );
    assert!(
        reported
            .activities
            .iter()
            .any(|it| it.kind == ActivityKind::Softirq)
    );
    for activity in &reported.activities {
        assert_eq!(activity.cpu, cpu, "{activity:?}");
        assert!(
            activity.start_mono_ns < activity.end_mono_ns,
            "{activity:?}"
        );
    }
    for kind in [LossKind::RingFull, LossKind::Undecodable] {
        assert_eq!(loss(&tracer, kind), 0, "{:?}", tracer.losses());
    }
    // On some kernels, no event fires when certain tasks leave a CPU.
    let unpaired = loss(&tracer, LossKind::Unpaired) as usize;
    assert!(
        unpaired * 20 < reported.activities.len(),
        "{:?}",
        tracer.losses()
    );
}

#[test]
fn a_threads_time_is_what_the_scheduler_counts() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    pin(other);
    let disturber = Disturber::on(cpu, "counted");
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    tracer.attach().unwrap();
    let stat = || on_cpu_ns(disturber.tid);
    let mut reported = Reported::default();
    reported.drain_for(&mut tracer, Duration::from_millis(100));
    let (before, mut first_ns) = (stat(), 0);
    reported.drain(&mut tracer);
    let name = format!("counted:{}", disturber.tid);
    for activity in reported.named(ActivityKind::Thread, &name) {
        first_ns += activity.end_mono_ns - activity.start_mono_ns;
    }
    reported.drain_for(&mut tracer, Duration::from_secs(2));
    let after = stat();
    reported.drain(&mut tracer);
    let reported_ns: u64 = reported
        .named(ActivityKind::Thread, &name)
        .map(|it| it.end_mono_ns - it.start_mono_ns)
        .sum::<u64>()
        - first_ns;
    let counted_ns = after - before;
    // A turn may be in progress at either reading. The scheduler's clock may exclude interrupts and
    // steal time, so its value may be smaller.
    let turn_ns = 20_000_000;
    assert!(
        reported_ns + turn_ns >= counted_ns,
        "told {reported_ns}, counted {counted_ns}"
    );
}

#[test]
fn a_watched_thread_is_no_activity_and_its_sleeps_are_named() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    pin(other);
    let disturber = Disturber::on(cpu, "watched");
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    tracer.watch(cpu, disturber.tid).unwrap();
    tracer.attach().unwrap();
    assert!(tracer.watch(cpu, disturber.tid).is_err(), "too late");
    let mut reported = Reported::default();
    reported.drain_for(&mut tracer, Duration::from_secs(1));
    let own = format!("watched:{}", disturber.tid);
    assert_eq!(reported.named(ActivityKind::Thread, &own).count(), 0);
    // The thread sleeps for 3 ms at a time, and the timer's interrupt wakes it.
    let slept: Vec<u64> = reported
        .named(ActivityKind::Blocked, "local_timer:236")
        .map(|it| it.end_mono_ns - it.start_mono_ns)
        .collect();
    assert!(slept.len() > 20, "{:?}", reported.names);
    let whole = slept.iter().filter(|&&ns| ns >= 2_900_000).count();
    assert!(whole * 10 >= slept.len() * 9, "{slept:?}");
}

#[test]
fn exits_of_a_cpu_without_a_vcpu_are_unknown_or_none() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    tracer.attach().unwrap();
    assert_eq!(tracer.light_exits(cpu), None, "kvm_exit has not fired");
    let none = tracer.witnesses().kvm_run.then_some(0);
    assert_eq!(tracer.heavy_exits(cpu), none);
    assert_eq!(tracer.heavy_exits(other), None, "not measured");
    assert!(tracer.watch(other, 1).is_err(), "not measured");
}
