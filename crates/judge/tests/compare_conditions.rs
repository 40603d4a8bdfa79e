//! Conditions on figures: each answer takes into account the facts that the recording hides.

use vmnoise_events::coverage::Hidden;
use vmnoise_events::fixtures::by_hand::{
    PERIOD_NS, activity, anchor, facts, finish, of_tasks, polling_in_a_machine, source,
};
use vmnoise_events::{Activation, ActivityKind, CpuTally, Event, Loss, LossKind, RunFacts, Share};
use vmnoise_judge::compare::{
    ComparedFigure, ConditionAnswer, LatencyContext, Measuring, RunFigures,
};

use crate::compare::run;

const SECOND_NS: u64 = 1_000_000_000;
const LOST: u64 = 500;

fn measure(facts: &RunFacts, events: &[Event]) -> RunFigures {
    let mut measuring = Measuring::new(facts, facts.options.threshold_ns, SECOND_NS / 2);
    events.iter().for_each(|event| measuring.push(event));
    measuring.finish()
}

fn hidden(answer: &ConditionAnswer) -> Vec<Hidden> {
    let spots = answer.blind_spots.iter();
    spots.map(|it| it.hidden().clone()).collect()
}

type Relation = fn(f64, f64) -> bool;
/// Answers to a condition if the figure is below, at and above the limit.
type Answers = [Option<bool>; 3];

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);

/// Each relation, with the answers of a recording that hides nothing, and the answers of a
/// recording that hides an unknown amount of time. The hidden time can only raise the figure.
const RELATIONS: [(&str, Relation, Answers, Answers); 4] = [
    (
        ">",
        |it, limit| it > limit,
        [NO, NO, YES],
        [None, None, YES],
    ),
    (
        ">=",
        |it, limit| it >= limit,
        [NO, YES, YES],
        [None, YES, YES],
    ),
    ("<", |it, limit| it < limit, [YES, NO, NO], [None, NO, NO]),
    (
        "<=",
        |it, limit| it <= limit,
        [YES, YES, NO],
        [None, None, NO],
    ),
];

/// Returns the answers to the conditions with a limit above the figure, at it and below it.
fn answers(run: &RunFigures, figure: &ComparedFigure, relation: Relation) -> [ConditionAnswer; 3] {
    let value = run.figure(figure).unwrap();
    let limits = [value * 1.01, value, value * 0.99];
    limits.map(|limit| run.answer(figure, limit, &|it| relation(it, limit)))
}

/// Returns a run with steal time in each gap. In the second run, up to three gaps were lost.
fn gaps() -> [RunFigures; 2] {
    let facts = polling_in_a_machine();
    let whole = run(7, 4_000);
    let mut blind = whole.clone();
    let kind = LossKind::MailboxFull;
    blind.insert(2, Event::Loss(Loss { kind, count: 3 }));
    [whole, blind].map(|events| measure(&facts, &events))
}

#[test]
fn hidden_time_can_only_raise_sums_and_maxima() {
    let [whole, blind] = gaps();
    for figure in [
        ComparedFigure::Percentile(10_000),
        ComparedFigure::Noise,
        ComparedFigure::Gaps,
        ComparedFigure::Share(Share::Steal),
    ] {
        for (name, relation, of_whole, of_blind) in RELATIONS {
            let found = answers(&whole, &figure, relation).map(|it| it.holds);
            assert_eq!(found, of_whole, "{figure:?} {name}");
            let found = answers(&blind, &figure, relation);
            let lost = |it: &ConditionAnswer| hidden(it) == [Hidden::Lost { count: 3 }];
            let is_reasoned = |it: &ConditionAnswer| lost(it) == it.holds.is_none();
            assert!(found.iter().all(is_reasoned), "{figure:?} {name} {found:?}");
            let found = found.map(|it| it.holds);
            assert_eq!(found, of_blind, "{figure:?} {name}");
        }
    }
}

/// The lost gaps may be shorter or longer than the recorded gaps.
#[test]
fn hidden_gaps_can_change_a_percentile_in_both_directions() {
    let [whole, blind] = gaps();
    let median = ComparedFigure::Percentile(5_000);
    for (name, relation, of_whole, _) in RELATIONS {
        let found = answers(&whole, &median, relation).map(|it| it.holds);
        assert_eq!(found, of_whole, "{name}");
        for answer in answers(&blind, &median, relation) {
            let expected = (None, vec![Hidden::Lost { count: 3 }]);
            assert_eq!((answer.holds, hidden(&answer)), expected, "{name}");
        }
    }
}

/// Time by which the interrupt of a late wake-up is late.
const LATE_NS: u64 = 50_000;
/// Time for which the thread `hog` then holds up the task.
const HELD_NS: u64 = 30_000;

/// Returns a wake-up on CPU 1. Without delays, the task is in user space after 3.7 us.
fn wake_up(expiry_ns: u64, late_ns: u64, held_ns: u64) -> Activation {
    let irq_ns = expiry_ns + 1_000 + late_ns;
    let switch_ns = irq_ns + 2_000 + held_ns;
    Activation {
        cpu: 1,
        expiry_mono_ns: expiry_ns,
        armed_mono_ns: Some(expiry_ns - 1_000),
        irq_mono_ns: Some(irq_ns),
        waking_mono_ns: Some(irq_ns + 500),
        switch_mono_ns: Some(switch_ns),
        woke_mono_ns: switch_ns + 700,
        ..Activation::default()
    }
}

/// Returns the records of a late wake-up. If they are lost, only the task's own two times remain.
fn late_wake_up(expiry_ns: u64, is_lost: bool) -> Vec<Event> {
    let seen = wake_up(expiry_ns, LATE_NS, HELD_NS);
    if is_lost {
        return vec![Event::Activation(Activation {
            irq_mono_ns: None,
            waking_mono_ns: None,
            switch_mono_ns: None,
            ..seen
        })];
    }
    let from_ns = expiry_ns + LATE_NS + 2_000;
    let hog = activity(ActivityKind::Thread, from_ns, from_ns + HELD_NS, 0);
    vec![hog, Event::Activation(seen)]
}

/// Measures a task on CPU 1 for ten seconds. Every tenth wake-up is late. `is_lost` is true if the
/// probes' records of these wake-ups were lost.
fn wakeups(is_lost: bool) -> RunFigures {
    let mut events = vec![anchor(0), source(0, "hog:7"), Event::Watermark(0)];
    for nth in 1..10 * SECOND_NS / PERIOD_NS {
        let expiry_ns = nth * PERIOD_NS;
        match nth % 10 {
            0 => events.extend(late_wake_up(expiry_ns, is_lost)),
            _ => events.push(Event::Activation(wake_up(expiry_ns, 0, 0))),
        }
        let now_ns = expiry_ns + PERIOD_NS / 2;
        events.push(anchor(now_ns));
        events.push(Event::Tally(CpuTally {
            cpu: 1,
            last_tsc: now_ns,
            blind_tsc: Some(0),
            ..CpuTally::default()
        }));
        events.push(Event::Watermark(now_ns));
    }
    if is_lost {
        let kind = LossKind::RingFull;
        events.push(Event::Loss(Loss { kind, count: LOST }));
    }
    events.push(finish());
    measure(&of_tasks(facts()), &events)
}

/// Every tenth wake-up needs 51 us until the interrupt, 83 us until the thread, and 83.7 us until
/// user space; the others need 1 us, 3 us and 3.7 us. Per wake-up, `hog` takes 3 us on average,
/// and 8.7 us are unexplained. If the records of the late wake-ups are lost, 11.7 us are
/// unexplained.
#[test]
fn lost_names_can_change_latencies_to_probes_and_parts_of_wake_ups() {
    let (whole, blind) = (wakeups(false), wakeups(true));
    let irq = |rank| ComparedFigure::Latency(LatencyContext::Irq, rank);
    let thread = |rank| ComparedFigure::Latency(LatencyContext::Thread, rank);
    let user = |rank| ComparedFigure::Latency(LatencyContext::User, rank);
    let by = ComparedFigure::Delay;
    for (figure, limit_ns, of_whole, of_blind) in [
        (irq(10_000), 40_000.0, YES, None),
        (irq(9_900), 40_000.0, YES, None),
        (irq(5_000), 40_000.0, NO, None),
        (thread(10_000), 40_000.0, YES, None),
        (thread(9_900), 40_000.0, YES, None),
        (thread(5_000), 40_000.0, NO, None),
        (by(Share::Thread), 1_000.0, YES, None),
        (by(Share::Irq), 1_000.0, NO, None),
        (by(Share::Unexplained), 5_000.0, YES, None),
        // The unexplained time is an upper bound of the time that each share may have.
        (by(Share::Thread), 20_000.0, NO, NO),
        // The task reads the end of these latencies itself.
        (user(10_000), 40_000.0, YES, YES),
        (user(5_000), 40_000.0, NO, NO),
    ] {
        let is_above = |it: f64| it > limit_ns;
        let found = whole.answer(&figure, limit_ns, &is_above);
        assert_eq!(
            (found.holds, hidden(&found)),
            (of_whole, vec![]),
            "{figure:?}"
        );
        let found = blind.answer(&figure, limit_ns, &is_above);
        let lost = Hidden::LostNames { count: LOST };
        let reasons = if of_blind.is_none() {
            vec![lost]
        } else {
            vec![]
        };
        assert_eq!(
            (found.holds, hidden(&found)),
            (of_blind, reasons),
            "{figure:?}"
        );
    }
}

/// A lost record can only raise the maximum. So a maximum above the limit decides.
#[test]
fn a_maximum_above_the_limit_is_above_it_whatever_was_lost() {
    let blind = wakeups(true);
    let longest = ComparedFigure::Latency(LatencyContext::Irq, 10_000);
    let found = blind.answer(&longest, 500.0, &|it| it > 500.0);
    assert_eq!((found.holds, hidden(&found)), (YES, vec![]));
    let found = blind.answer(&longest, 500.0, &|it| it <= 500.0);
    assert_eq!((found.holds, hidden(&found)), (NO, vec![]));
}
