//! Tests wake-ups by hand: the culprits in each phase.

use crate::streams::{finish, in_a_machine, source, with_steal};
use vmnoise_events::{
    Activation, ActivityKind, Event, MeasuringCommand, RunFacts, Share, TimerOptions, fixtures,
};
use vmnoise_explain::{Explainer, Interval, Phase, Summary};

const SEEN: Activation = Activation {
    cpu: 1,
    expiry_mono_ns: 10_000,
    woke_mono_ns: 11_000,
    armed_mono_ns: Some(5_000),
    irq_mono_ns: Some(10_300),
    waking_mono_ns: Some(10_320),
    switch_mono_ns: Some(10_900),
    steal_ns: [0; 5],
    missed: 0,
};

fn facts() -> RunFacts {
    let mut facts = in_a_machine();
    facts.workload = MeasuringCommand::Timerlat;
    facts.options.timer = Some(TimerOptions {
        stop_irq_ns: Some(300),
        ..fixtures::timer(100_000)
    });
    facts
}

fn explain(activation: Activation, activities: &[Event]) -> (Interval, Summary) {
    let mut explainer = Explainer::new(&facts());
    let mut wakeups = Vec::new();
    let begin = [source(0, "local_timer:236"), source(1, "hog:7")];
    let end = [Event::Activation(activation), finish()];
    for event in begin.iter().chain(activities).chain(&end) {
        explainer.push(event, &mut |it| wakeups.push(it.clone()));
    }
    (wakeups.remove(0), explainer.finish())
}

fn parts(wakeup: &Interval) -> Vec<(Phase, Share, u64)> {
    let parts = wakeup.parts.iter();
    let reported = parts.map(|part| {
        (
            part.phase.expect("all steps were seen"),
            part.share,
            part.ns,
        )
    });
    reported.collect()
}

#[test]
fn a_running_thread_delays_the_switch_and_not_the_interrupt() {
    let (wakeup, _) = explain(
        SEEN,
        &[
            with_steal(ActivityKind::Irq, 10_290, 10_340, 0, 0),
            with_steal(ActivityKind::Thread, 9_000, 10_900, 1, 0),
        ],
    );
    let expected = [
        (Phase::Irq, Share::HvOrHw, 290),
        (Phase::Irq, Share::Irq, 10),
        (Phase::Handler, Share::Irq, 20),
        (Phase::Wakeup, Share::Thread, 560),
        (Phase::Wakeup, Share::Irq, 20),
        (Phase::Return, Share::HvOrHw, 100),
    ];
    assert_eq!(parts(&wakeup), expected);
    assert_eq!(wakeup.latencies_ns()[..2], [Some(300), Some(900)]);
}

#[test]
fn steal_comes_out_of_whoever_was_robbed_then_out_of_the_residual() {
    let stolen = Activation {
        steal_ns: [0, 250, 0, 400, 900],
        ..SEEN
    };
    let (wakeup, summary) = explain(
        stolen,
        &[
            with_steal(ActivityKind::Irq, 10_290, 10_340, 0, 0),
            with_steal(ActivityKind::Thread, 9_000, 10_900, 1, 400),
        ],
    );
    let of = |phase, share| {
        let parts = parts(&wakeup).into_iter();
        parts
            .filter(|(its, under, _)| (*its, *under) == (phase, share))
            .map(|(.., ns)| ns)
            .sum::<u64>()
    };
    assert_eq!(of(Phase::Irq, Share::Steal), 250);
    assert_eq!(of(Phase::Irq, Share::HvOrHw), 40);
    assert_eq!(of(Phase::Wakeup, Share::Steal), 400);
    assert_eq!(of(Phase::Wakeup, Share::Thread), 160);
    // The steal is longer than the phase, so it is clamped and counted.
    assert_eq!(of(Phase::Return, Share::Steal), 100);
    let wakeups = summary.wakeups.expect("tasks were measured");
    assert_eq!(wakeups.cpus[0].steal_clamps, 1);
    let sources = &wakeups.cpus[0].sources;
    assert_eq!(
        (sources[0].name.as_str(), sources[0].total_ns),
        ("hog:7", 160)
    );
}

/// The steal times are those in the tests of the tracer's handlers. The hypervisor takes time from
/// the task after the expiry, before the task has armed its timer.
#[test]
fn what_is_stolen_before_a_timer_is_armed_late_is_steal() {
    let late = Activation {
        expiry_mono_ns: 5_000,
        armed_mono_ns: Some(9_000),
        irq_mono_ns: Some(9_200),
        waking_mono_ns: Some(9_210),
        switch_mono_ns: Some(9_300),
        woke_mono_ns: 9_400,
        steal_ns: [4_000, 100, 0, 0, 0],
        ..SEEN
    };
    let (wakeup, _) = explain(late, &[]);
    let expected = [
        (Phase::ArmedLate, Share::Steal, 4_000),
        (Phase::Irq, Share::Steal, 100),
        (Phase::Irq, Share::HvOrHw, 100),
        (Phase::Handler, Share::HvOrHw, 10),
        (Phase::Wakeup, Share::HvOrHw, 90),
        (Phase::Return, Share::HvOrHw, 100),
    ];
    assert_eq!(parts(&wakeup), expected);
}

#[test]
fn the_first_that_hits_a_limit_is_reported() {
    let (wakeup, summary) = explain(SEEN, &[]);
    assert!(wakeup.hits_limit);
    // The run ended by its duration, and was not stopped.
    assert_eq!(summary.wakeups.expect("tasks").stopped_by, None);
    let earlier = Activation {
        irq_mono_ns: Some(10_299),
        ..SEEN
    };
    assert!(!explain(earlier, &[]).0.hits_limit);
}

#[test]
fn gaps_are_nobodys_here() {
    let mut explainer = Explainer::new(&facts());
    explainer.push(&Event::Gap(crate::streams::gap(1, 2)), &mut |_| {
        panic!("a gap")
    });
    assert_eq!(explainer.finish().lost_events, 1);
}
