//! A recording whose TSC goes back: what comes after has no place in time, and is not trusted.

use crate::streams::{activity, anchor, explain, facts, finish, gap};
use vmnoise_events::*;

const MS: u64 = 1_000_000;

/// A reading of both clocks, `back` cycles behind.
fn anchor_behind(mono_ns: u64, back: u64) -> Event {
    let tsc = mono_ns - back;
    Event::Anchor(Anchor {
        before_tsc: tsc,
        mono_ns,
        after_tsc: tsc,
    })
}

fn tally(last_tsc: u64) -> Event {
    Event::Tally(Tally {
        cpu: 1,
        first_tsc: 100 * MS,
        last_tsc,
        ..Tally::default()
    })
}

/// One drain of 20 ms that ends then, with a gap in its middle that an interrupt made; the TSC is
/// `back` behind.
fn drain(end_ns: u64, back: u64) -> Vec<Event> {
    let at_ns = end_ns - 10 * MS;
    let observed = gap(at_ns - back, at_ns - back + 3_000);
    vec![
        anchor_behind(end_ns, back),
        tally(end_ns - back),
        activity(ActivityKind::Irq, at_ns + 100, at_ns + 2_900, 0),
        Event::Gap(observed),
        Event::Watermark(end_ns - MS),
    ]
}

fn run(back: u64) -> Vec<Event> {
    let mut events = vec![anchor(100 * MS)];
    for number in 1..=10 {
        let back = if number > 6 { back } else { 0 };
        events.extend(drain((100 + 20 * number) * MS, back));
    }
    events.push(Event::Loss(Loss {
        kind: LossKind::MailboxFull,
        count: 2,
    }));
    events.push(finish());
    events
}

#[test]
fn after_the_tsc_went_back_nothing_is_trusted() {
    let (budgets, summary) = explain(&facts(), &run(0));
    assert_eq!((budgets.len(), summary.tsc_went_back_at_ns), (10, None));
    assert_eq!(summary.cpus[0].runtime_ns, Some(200 * MS));

    let (budgets, summary) = explain(&facts(), &run(70 * MS));
    assert_eq!(budgets.len(), 6);
    assert!(budgets.is_sorted_by_key(|budget| budget.start_mono_ns));
    for budget in &budgets {
        assert_eq!(budget.parts[0].share, Share::HostIrq, "{budget:?}");
    }
    // The last anchor before.
    assert_eq!(summary.tsc_went_back_at_ns, Some(120 * MS));
    assert_eq!(summary.cpus[0].runtime_ns, Some(120 * MS));
    assert_eq!(summary.lost_events, 2, "what is said of the run counts");
    assert!(summary.complete);
}

#[test]
fn a_gap_that_no_anchor_dates_is_not_trusted_either() {
    let mut events = run(70 * MS);
    // Told with the sixth drain, and observed after its reading of the clocks.
    let jump = events
        .iter()
        .rposition(|event| matches!(event, Event::Watermark(mono_ns) if *mono_ns == 219 * MS));
    let late = gap(220 * MS + 500, 220 * MS + 4_000);
    events.insert(jump.unwrap(), Event::Gap(late));
    let (budgets, _) = explain(&facts(), &events);
    assert_eq!(budgets.len(), 6);
}

#[test]
fn wake_ups_after_it_are_not_trusted() {
    let mut facts = facts();
    facts.workload = Workload::Timerlat;
    let wakeup = |expiry_mono_ns| {
        Event::Activation(Activation {
            cpu: 1,
            expiry_mono_ns,
            woke_mono_ns: expiry_mono_ns + 5_000,
            ..Activation::default()
        })
    };
    let mut events = vec![anchor(100 * MS), anchor(120 * MS)];
    events.extend([
        wakeup(110 * MS),
        wakeup(121 * MS),
        Event::Watermark(119 * MS),
    ]);
    events.push(anchor_behind(140 * MS, 90 * MS));
    events.extend([wakeup(130 * MS), Event::Watermark(139 * MS), finish()]);
    let (_, summary) = explain(&facts, &events);
    assert_eq!(summary.wakeups.unwrap().cpus[0].count, 1);
    assert!(summary.tsc_went_back_at_ns.is_some());
}
