//! Tests what the interference counters add to the activities: whether an interference touched a
//! gap, whether all activities of the gap are known, and interferences outside of gaps.

use crate::streams::{
    activity, anchor, explain, facts, finish, gap, gap_of, parts, polling_in_a_machine, source,
};
use vmnoise_events::ActivityKind::{Irq, Softirq, Throttled};
use vmnoise_events::{CpuTally, Event, Gap, InterferenceCounts, MeasuringCommand, RunFacts, Share};
use vmnoise_explain::{Explainer, Interval, NamedInterval, Summary};

fn polling() -> RunFacts {
    RunFacts {
        workload: MeasuringCommand::Osnoise,
        ..facts()
    }
}

fn counted(start_tsc: u64, end_tsc: u64, interference: u32) -> Event {
    Event::Gap(Gap {
        interference: Some(interference),
        ..gap(start_tsc, end_tsc)
    })
}

fn tally(irq: u64, softirq: u64) -> Event {
    Event::Tally(CpuTally {
        cpu: 1,
        last_tsc: 9000,
        interference: Some(InterferenceCounts {
            irq,
            softirq,
            ..InterferenceCounts::default()
        }),
        ..CpuTally::default()
    })
}

fn one_gap(facts: &RunFacts, interference: u32, activities: &[Event]) -> (Interval, Summary) {
    let mut events = vec![source(0, "tick"), anchor(0), anchor(10_000)];
    events.extend_from_slice(activities);
    events.extend([counted(1000, 2000, interference), finish()]);
    let (mut budgets, summary) = explain(facts, &events);
    (budgets.remove(0), summary)
}

#[test]
fn a_counter_that_stood_still_is_hardware() {
    let (budget, summary) = one_gap(&polling(), 0, &[]);
    assert_eq!(parts(&budget), [(Share::Hw, None, 1000)]);
    assert_eq!(summary.cpus[0].interference.hw, Some(1));
    assert_eq!(summary.cpus[0].incomplete_gaps, Some(0));
    assert_eq!(lost_of(&summary.worst[0]), Some(0));

    // This interrupt seems to reach into the gap only because of the error of the clocks.
    let (_, summary) = one_gap(&polling(), 0, &[activity(Irq, 900, 1001, 0)]);
    assert_eq!(summary.cpus[0].interference.hw, Some(1));
    // There is no interference, but the thread was throttled.
    let (_, summary) = one_gap(&polling(), 0, &[activity(Throttled, 1000, 1900, 0)]);
    assert_eq!(summary.cpus[0].interference.hw, Some(0));
}

#[test]
fn a_counter_that_agrees_with_the_activities_changes_nothing() {
    let both = [
        activity(Irq, 1000, 1100, 0),
        activity(Softirq, 1100, 1200, 0),
    ];
    for (facts, rest) in [
        (polling(), Share::Unexplained),
        (polling_in_a_machine(), Share::HvOrHw),
    ] {
        let (budget, summary) = one_gap(&facts, 2, &both);
        assert_eq!(parts(&budget)[0], (rest, None, 800));
        assert_eq!(gap_of(&budget).lost_activities, Some(0));
        assert_eq!(summary.cpus[0].interference.hw, Some(0));
        assert_eq!(summary.cpus[0].incomplete_gaps, Some(0));
    }
}

#[test]
fn what_was_lost_is_blamed_on_nobody() {
    for facts in [polling(), polling_in_a_machine()] {
        let two = [activity(Irq, 1000, 1100, 0), activity(Irq, 1200, 1300, 0)];
        for (activities, left_ns) in [(&two[..0], 1000), (&two[..1], 900), (&two, 800)] {
            let (budget, summary) = one_gap(&facts, 3, activities);
            let lost = 3 - activities.len() as u64;
            assert_eq!(parts(&budget)[0], (Share::Unexplained, None, left_ns));
            assert_eq!(gap_of(&budget).lost_activities, Some(lost));
            assert!(!budget.is_unattributed());
            let cpu = &summary.cpus[0];
            assert_eq!((cpu.interference.hw, cpu.bare_gaps), (Some(0), 0));
            assert_eq!(cpu.incomplete_gaps, Some(1));
            assert_eq!(lost_of(&summary.worst[0]), Some(lost));
        }
    }
}

#[test]
fn without_a_counter_losses_inside_a_gap_are_unknown() {
    let events = [anchor(0), Event::Gap(gap(1000, 2000)), finish()];
    let (budgets, summary) = explain(&polling(), &events);
    assert_eq!(parts(&budgets[0]), [(Share::Hw, None, 1000)]);
    assert_eq!(summary.cpus[0].incomplete_gaps, None);
    assert_eq!(lost_of(&summary.worst[0]), None);
    let quiet = explain(&polling(), &[tally(0, 0), finish()]).1;
    assert_eq!(quiet.cpus[0].incomplete_gaps, Some(0));
}

#[test]
fn counters_tell_what_no_gap_shows_for_the_run_and_each_period() {
    let mut explainer = Explainer::new(&polling());
    let mut feed = |events: &[Event]| {
        let each = events.iter();
        each.for_each(|event| explainer.push(event, &mut |_| {}));
        explainer.take_period().remove(0).interference
    };
    let first = feed(&[
        source(0, "tick"),
        anchor(0),
        activity(Irq, 1000, 1100, 0),
        counted(1000, 2000, 1),
        tally(7, 2),
        anchor(4000),
        Event::Watermark(4000),
    ]);
    assert_eq!(
        (first.irq, first.softirq, first.hw),
        (Some(7), Some(2), Some(0))
    );
    let second = feed(&[tally(10, 2), anchor(9000), Event::Watermark(9000)]);
    assert_eq!((second.irq, second.softirq), (Some(3), Some(0)));
    let run = explainer.finish().cpus.remove(0).interference;
    assert_eq!(
        (run.irq, run.softirq, run.nmi),
        (Some(10), Some(2), Some(0))
    );

    let mut blind = polling();
    blind.witnesses.softirq = false;
    let run = explain(&blind, &[tally(10, 0), finish()]).1.cpus.remove(0);
    assert_eq!(run.interference.softirq, None, "not watched is not 0");
}

fn lost_of(gap: &NamedInterval) -> Option<u64> {
    gap.detail.gap().expect("it is a gap").lost_activities
}
