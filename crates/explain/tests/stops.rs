//! Tests a workload that was stopped. The stop is no noise, and the time of the stop was not
//! measured.

use crate::streams::{activity, anchor, explain, facts, finish, gap, in_a_machine, source};
use vmnoise_events::ActivityKind::{Irq, Stopped, Thread};
use vmnoise_events::{Activation, CpuTally, Event, MeasuringCommand, RunFacts, fixtures};
use vmnoise_explain::Explainer;

fn tally(last_tsc: u64, blind_tsc: u64) -> Event {
    Event::Tally(CpuTally {
        cpu: 1,
        first_tsc: 1_000,
        last_tsc,
        blind_tsc: Some(blind_tsc),
        ..CpuTally::default()
    })
}

#[test]
fn a_gap_around_a_stop_is_none_and_the_run_is_what_was_measured_and_what_was_not() {
    let events = [
        source(0, "unknown"),
        source(1, "hog:7"),
        anchor(0),
        tally(100_000, 300),
        // The thread left at 20_040, and was back at 70_010.
        activity(Stopped, 20_040, 70_010, 0),
        activity(Thread, 80_000, 81_000, 1),
        Event::Gap(gap(20_000, 70_050)),
        Event::Gap(gap(79_990, 81_010)),
        anchor(100_000),
        finish(),
    ];
    let (gaps, summary) = explain(&facts(), &events);
    let cpu = &summary.cpus[0];
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!((cpu.noise_ns, cpu.max_gap_ns), (1_020, Some(1_020)));
    let not_measured_ns = cpu.not_measured_ns.unwrap();
    assert_eq!(not_measured_ns, 50_050, "with the way there and back");
    assert_eq!(cpu.runtime_ns.unwrap() + not_measured_ns + 300, 99_000);
}

#[test]
fn a_stop_in_blind_time_is_taken_off_the_runtime_once() {
    let events = [
        source(0, "unknown"),
        anchor(0),
        // The thread paused from 10_000 to 90_000.
        tally(100_000, 80_000),
        activity(Stopped, 20_000, 70_000, 0),
        anchor(100_000),
        finish(),
    ];
    let (_, summary) = explain(&facts(), &events);
    let cpu = &summary.cpus[0];
    assert_eq!(cpu.not_measured_ns, Some(50_000));
    let blind_else_ns = 80_000 - 50_000;
    assert_eq!(cpu.runtime_ns, Some(99_000 - 50_000 - blind_else_ns));
}

#[test]
fn a_stop_past_the_last_reading_was_not_measured_and_is_no_part_of_the_runtime() {
    let events = [
        source(0, "unknown"),
        anchor(0),
        tally(100_000, 0),
        // One stop is in the warm-up, one reaches into the result, and one lasts to the end of the
        // run.
        activity(Stopped, 100, 400, 0),
        activity(Stopped, 500, 3_000, 0),
        activity(Stopped, 99_900, 200_000, 0),
        Event::Gap(gap(1_000, 3_010)),
        anchor(200_000),
        finish(),
    ];
    let (_, summary) = explain(&facts(), &events);
    let cpu = &summary.cpus[0];
    assert_eq!(cpu.not_measured_ns, Some(2_010 + 100_100));
    assert_eq!(cpu.runtime_ns, Some(99_000 - 2_010 - 100));
}

#[test]
fn a_period_is_no_longer_than_it_was_before_its_stop_is_explained() {
    let mut explainer = Explainer::new(&facts());
    let events = [
        source(0, "unknown"),
        anchor(0),
        tally(100_000, 0),
        anchor(100_000),
        // The gap is not certain yet, but the tally contains its time.
        tally(900_000, 0),
        activity(Stopped, 200_000, 850_000, 0),
        Event::Gap(gap(199_900, 850_100)),
    ];
    for event in &events[..4] {
        explainer.push(event, &mut |_| {});
    }
    explainer.push(&Event::Watermark(99_000), &mut |_| {});
    assert_eq!(explainer.take_period()[0].runtime_ns, Some(99_000));
    for event in &events[4..] {
        explainer.push(event, &mut |_| {});
    }
    assert_eq!(explainer.take_period()[0].runtime_ns, Some(150_000));
}

#[test]
fn nobody_knows_of_stops_without_a_witness() {
    let mut facts = facts();
    let known =
        |facts: &RunFacts, events: &[Event]| explain(facts, events).1.cpus[0].not_measured_ns;
    let begin = [source(0, "unknown"), anchor(0)];
    assert_eq!(known(&facts, &begin), Some(0));
    facts.witnesses.sched = false;
    assert_eq!(known(&facts, &begin), None);
    // A recorded stop is known even without the probe.
    let said = [source(0, "unknown"), anchor(0), activity(Stopped, 5, 9, 0)];
    assert_eq!(known(&facts, &said), Some(4));
}

fn wakes(expiry_mono_ns: u64, woke_mono_ns: u64, missed: u32) -> Event {
    Event::Activation(Activation {
        cpu: 1,
        expiry_mono_ns,
        woke_mono_ns,
        missed,
        ..Activation::default()
    })
}

#[test]
fn what_a_task_could_not_do_while_it_was_stopped_is_no_latency_and_not_missed() {
    let mut facts = in_a_machine();
    facts.workload = MeasuringCommand::Timerlat;
    facts.options.timer = Some(fixtures::timer(1_000));
    let events = [
        source(0, "unknown"),
        source(1, "tick"),
        // This wake-up is late by itself, and one expiry passes meanwhile.
        wakes(10_000, 11_200, 0),
        wakes(12_000, 12_050, 1),
        // The timer of this wake-up was set before the stop. 20 more expiries passed during the
        // stop.
        activity(Stopped, 12_500, 33_400, 0),
        activity(Irq, 33_450, 33_460, 1),
        wakes(13_000, 33_500, 0),
        // Two of the 22 missed expiries passed after the stop.
        wakes(36_000, 36_100, 22),
        finish(),
    ];
    let (_, summary) = explain(&facts, &events);
    let cpu = &summary.wakeups.unwrap().cpus[0];
    assert_eq!((cpu.count, cpu.not_measured), (3, 21));
    assert_eq!(cpu.missed, 1 + 2);
    assert_eq!(cpu.user.as_ref().map(|user| user.max_ns), Some(1_200));
    assert_eq!(summary.cpus[0].not_measured_ns, Some(20_900));
}
