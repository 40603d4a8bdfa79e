//! Compares the live interference counters with the reported activities.

use std::{sync::atomic::Ordering::Relaxed, thread, time::Duration};

use vmnoise_events::ActivityKind::{self, Irq, Nmi, Softirq, Thread};
use vmnoise_events::LossKind;
use vmnoise_tracer::{Scope, Tracer};

use super::harness::{Disturber, Reported, alone, pin, two_cpus};

/// Largest number of activities in progress at a reading. An activity is counted at its begin, and
/// reported at its end. Interrupts, softirqs and a thread may be in progress.
const IN_PROGRESS: u64 = 8;

#[test]
fn what_is_counted_is_reported() {
    let _alone = alone();
    let (cpu, other) = two_cpus();
    pin(other);
    let _disturber = Disturber::on(cpu, "counted");
    let mut tracer = Tracer::load(&[cpu], Scope::Vcpus).unwrap();
    let counter = tracer.interference_counter(cpu).unwrap();
    let counter: &vmnoise_events::InterferenceSlot = counter.as_ref();
    assert!(tracer.interference_counter(other).is_none(), "not measured");
    assert_eq!(
        counter.total.load(Relaxed),
        0,
        "nothing counts before attaching"
    );
    tracer.attach().unwrap();
    let mut reported = Reported::default();
    reported.drain_for(&mut tracer, Duration::from_secs(1));
    let counts = counter.counts();
    thread::sleep(Duration::from_millis(20));
    reported.drain(&mut tracer);

    let losses = tracer.losses();
    let lost = |kind| {
        losses
            .iter()
            .find(|loss| loss.kind == kind)
            .map_or(0, |loss| loss.count)
    };
    let lost = lost(LossKind::RingFull) + lost(LossKind::Unpaired) + lost(LossKind::Recursion);
    println!("{counts:?}, {lost} lost");
    assert!(counts.irq > 100 && counts.thread > 100, "{counts:?}");
    let classes: [(ActivityKind, u64); 4] = [
        (Nmi, counts.nmi),
        (Irq, counts.irq),
        (Softirq, counts.softirq),
        (Thread, counts.thread),
    ];
    for (kind, counted) in classes {
        let seen = reported
            .activities
            .iter()
            .filter(|it| it.kind == kind)
            .count() as u64;
        // The drain is 20 ms after the reading, so more activities may be reported than were
        // counted.
        assert!(
            seen + IN_PROGRESS + lost >= counted,
            "{kind:?}: {seen} told, {counted} counted"
        );
    }
    drop(tracer);
    let after = counter.counts();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(counter.counts(), after, "nothing counts any more");
}
