//! Tests recordings whose TSC goes back or jumps forward. Events after a step back have no known
//! time, and are not trusted.

use crate::streams::{activity, anchor, explain, facts, finish, gap};
use vmnoise_events::*;
use vmnoise_explain::ClockJumps;

const MS: u64 = 1_000_000;

/// Returns a reading of both clocks, with the TSC `back` cycles behind.
fn anchor_behind(mono_ns: u64, back: u64) -> Event {
    let tsc = mono_ns - back;
    Event::Anchor(Anchor {
        before_tsc: tsc,
        mono_ns,
        after_tsc: tsc,
    })
}

fn tally(last_tsc: u64) -> Event {
    Event::Tally(CpuTally {
        cpu: 1,
        first_tsc: 100 * MS,
        last_tsc,
        ..CpuTally::default()
    })
}

/// Returns the events of one drain of 20 ms that ends at `end_ns`. An interrupt makes a gap in its
/// middle. The TSC is `back` cycles behind.
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
    // This is the time of the last anchor before the jump.
    assert_eq!(summary.tsc_went_back_at_ns, Some(120 * MS));
    assert_eq!(summary.cpus[0].runtime_ns, Some(120 * MS));
    assert_eq!(summary.lost_events, 2, "what is said of the run counts");
    assert!(summary.complete);
}

#[test]
fn a_gap_that_no_anchor_dates_is_not_trusted_either() {
    let mut events = run(70 * MS);
    // This gap is reported with the sixth drain, but was observed after the drain's reading of the
    // clocks.
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
    facts.workload = MeasuringCommand::Timerlat;
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

/// Returns events like [`run`], but from the seventh drain on the TSC is `ahead` cycles ahead, as
/// in a guest that was paused.
fn run_ahead(ahead: u64) -> Vec<Event> {
    let at = |ns: u64, number: u64| if number > 6 { ns + ahead } else { ns };
    let mut events = vec![anchor(100 * MS)];
    for number in 1..=10 {
        let end_ns = (100 + 20 * number) * MS;
        let (at_ns, end_tsc) = (end_ns - 10 * MS, at(end_ns, number));
        events.extend([
            Event::Anchor(Anchor {
                before_tsc: end_tsc,
                mono_ns: end_ns,
                after_tsc: end_tsc,
            }),
            tally(end_tsc),
            activity(ActivityKind::Irq, at_ns + 100, at_ns + 2_900, 0),
            Event::Gap(gap(at(at_ns, number), at(at_ns + 3_000, number))),
            Event::Watermark(end_ns - MS),
        ]);
    }
    // This gap is the pause itself, which the workload observed.
    events.push(Event::Gap(gap(221 * MS, 221 * MS + 5_000 + ahead)));
    events.push(finish());
    events
}

#[test]
fn around_a_jump_no_gap_is_explained() {
    const S: u64 = 1_000 * MS;
    let (plain, _) = explain(&facts(), &run_ahead(0));
    assert_eq!(plain.len(), 11);

    let (budgets, summary) = explain(&facts(), &run_ahead(10 * S));
    // The seventh gap and the pause lie between the two readings around the jump.
    let starts = budgets.iter().map(|budget| budget.start_mono_ns / MS);
    let truth = [110, 130, 150, 170, 190, 210, 250, 270, 290];
    assert_eq!(starts.collect::<Vec<_>>(), truth);
    for budget in &budgets {
        assert_eq!(budget.dur_ns, 3_000, "{budget:?}");
        assert_eq!(budget.parts[0].share, Share::HostIrq, "{budget:?}");
    }
    let jumps = ClockJumps {
        count: 1,
        undated_ns: 20 * MS,
        undated_gaps: 2,
    };
    assert_eq!(summary.clock_jumps, jumps);
    assert_eq!(summary.clock_bound_ns, Some(0));
    assert_eq!(summary.cpus[0].runtime_ns, Some(180 * MS));
    assert_eq!(summary.tsc_went_back_at_ns, None);
}
