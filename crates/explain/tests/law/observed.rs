//! Tests gaps of an observed thread. These gaps follow only from the recorded activities, wherever
//! the watermarks are.

use crate::streams::any_plans::any_shown;
use crate::streams::{activity, anchor, finish, gap_of, parts, source, with_steal};
use proptest::prelude::*;
use vmnoise_events::{
    Activity, ActivityKind, CpuTally, Event, LossKind, MeasuringCommand, ObservedThread, RunFacts,
    Share, SourceId,
};
use vmnoise_explain::Interval;

const LENGTH_NS: u64 = 200_000;

/// Returns the facts of a thread in a virtual machine whose steal clock is read at each activity.
fn facts() -> RunFacts {
    let mut facts = crate::streams::in_a_machine();
    facts.workload = MeasuringCommand::Observed;
    facts.options.observed = vec![ObservedThread {
        tid: 7,
        comm: "loop".into(),
    }];
    facts.witnesses.kvm_run = false;
    facts.witnesses.kvm_exit = false;
    facts.witnesses.steal_clock = false;
    facts
}

fn tally(last_tsc: u64, blind_tsc: u64) -> Event {
    Event::Tally(CpuTally {
        cpu: 1,
        first_tsc: 1_000,
        last_tsc,
        blind_tsc: Some(blind_tsc),
        steal_clock_ns: Some(700),
        ..CpuTally::default()
    })
}

#[test]
fn a_gap_is_a_run_of_activities_with_the_way_between_them() {
    let events = [
        source(0, "local_timer:236"),
        source(1, "SCHED:7"),
        source(2, "other:8"),
        anchor(0),
        activity(ActivityKind::Irq, 500, 900, 0), // before the run begins
        with_steal(ActivityKind::Irq, 10_000, 14_000, 0, 1_000),
        activity(ActivityKind::Softirq, 15_000, 18_000, 1),
        activity(ActivityKind::Irq, 30_000, 31_000, 0), // inside the next activity
        with_steal(ActivityKind::Thread, 22_000, 60_000, 2, 300),
        activity(ActivityKind::Irq, 90_000, 91_000, 0),
        anchor(LENGTH_NS),
        tally(101_000, 40_000),
        Event::Watermark(LENGTH_NS),
        finish(),
    ];
    let (budgets, summary) = crate::streams::explain(&facts(), &events);
    let ends: Vec<(u64, u64)> = budgets
        .iter()
        .map(gap_of)
        .map(|gap| (gap.start_tsc, gap.end_tsc))
        .collect();
    assert_eq!(ends, [(10_000, 60_000), (90_000, 91_000)]);
    assert_eq!(
        parts(&budgets[0]),
        [
            (Share::Thread, Some(2), 36_700),
            (Share::Unexplained, None, 5_000),
            (Share::Irq, Some(0), 4_000),
            (Share::Softirq, Some(1), 3_000),
            (Share::Steal, None, 1_300),
        ]
    );
    let cpu = &summary.cpus[0];
    assert_eq!(cpu.runtime_ns, Some(60_000));
    assert_eq!((cpu.noise_ns, cpu.steal_clock_ns), (51_000, Some(700)));
    assert_eq!(summary.late_events, 0);
}

#[test]
fn what_nobody_felt_is_unknown() {
    let (_, summary) = crate::streams::explain(&facts(), &[anchor(0), tally(9_000, 0), finish()]);
    let cpu = &summary.cpus[0];
    for share in [Share::Hw, Share::HvOrHw, Share::Blocked, Share::Kvm] {
        assert_eq!(cpu.shares_ns[share], None, "{share}");
    }
    assert_eq!(cpu.shares_ns[Share::Steal], Some(0));
    assert_eq!(cpu.interference.hw, None);
    assert_eq!(cpu.guest_columns.hw_noise_ns, None);
}

#[test]
fn gaps_below_the_threshold_are_none_and_felt_ones_are_damage() {
    let mut facts = facts();
    facts.options.threshold_ns = 5_000;
    let events = [
        source(0, "local_timer:236"),
        anchor(0),
        activity(ActivityKind::Irq, 10_000, 14_999, 0),
        activity(ActivityKind::Irq, 50_000, 55_000, 0),
        Event::Gap(crate::streams::gap(60_000, 90_000)),
        tally(LENGTH_NS, 0),
        finish(),
    ];
    let (budgets, summary) = crate::streams::explain(&facts, &events);
    assert_eq!(budgets.len(), 1);
    assert_eq!(budgets[0].start_mono_ns, 50_000);
    assert_eq!(summary.losses.get(LossKind::Undecodable), 1);
}

#[test]
fn cpus_where_the_thread_never_was_are_left_out() {
    let mut facts = facts();
    facts.options.cpus = vec![0, 1, 2];
    let (_, summary) = crate::streams::explain(&facts, &[anchor(0), tally(9_000, 0), finish()]);
    let listed: Vec<u32> = summary.cpus.iter().map(|cpu| cpu.cpu).collect();
    assert_eq!(listed, [1]);
}

#[test]
fn a_turn_that_is_not_over_holds_back_what_lies_in_it() {
    let events = [
        source(0, "local_timer:236"),
        source(1, "other:8"),
        anchor(0),
        activity(ActivityKind::Irq, 30_000, 31_000, 0),
        anchor(LENGTH_NS),
        tally(20_000, 0), // another thread runs from here on
        Event::Watermark(LENGTH_NS),
        activity(ActivityKind::Thread, 20_000, LENGTH_NS + 7, 1),
        anchor(2 * LENGTH_NS),
        tally(2 * LENGTH_NS, 0),
        Event::Watermark(2 * LENGTH_NS),
        finish(),
    ];
    let (budgets, _) = crate::streams::explain(&facts(), &events);
    let lengths: Vec<u64> = budgets.iter().map(|gap| gap.dur_ns).collect();
    assert_eq!(lengths, [LENGTH_NS - 20_000 + 7]);
}

/// Returns the gaps, computed in another way: marks each µs that an activity takes, and each hole
/// that the two activities around it bridge.
fn painted(activities: &[Activity]) -> Vec<(u64, u64)> {
    let us = |ns: u64| (ns / 1_000) as usize;
    let mut taken = vec![false; us(LENGTH_NS) * 2];
    for it in activities {
        taken[us(it.start_mono_ns)..us(it.end_mono_ns)].fill(true);
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (index, _) in taken.iter().enumerate().filter(|(_, taken)| **taken) {
        let at_ns = index as u64 * 1_000;
        let ends_here = |end_ns: u64| {
            let last = activities
                .iter()
                .filter(|it| it.end_mono_ns == end_ns)
                .min_by_key(|it| (it.start_mono_ns, it.kind));
            last.map(|it| it.kind)
        };
        let begins_here = activities
            .iter()
            .filter(|it| it.start_mono_ns == at_ns)
            .max_by_key(|it| (it.end_mono_ns, std::cmp::Reverse(it.kind)));
        let is_way = |end_ns: u64| {
            let from = ends_here(end_ns).is_some_and(|kind| kind >= ActivityKind::Softirq);
            let on = begins_here.is_some_and(|it| it.kind <= ActivityKind::Softirq);
            from && on && at_ns - end_ns < 20_000
        };
        match runs.last_mut() {
            Some((_, end_ns)) if at_ns == *end_ns || is_way(*end_ns) => *end_ns = at_ns + 1_000,
            _ => runs.push((at_ns, at_ns + 1_000)),
        }
    }
    runs
}

fn events(activities: &[Activity], marks: &[u64]) -> Vec<Event> {
    let mut timed: Vec<(u64, u8, Event)> = activities
        .iter()
        .map(|it| (it.end_mono_ns, 0, Event::Activity(*it)))
        .collect();
    for &mark in marks {
        let open = activities
            .iter()
            .filter(|it| it.start_mono_ns < mark && it.end_mono_ns > mark);
        let last_tsc = open.map(|it| it.start_mono_ns).min().unwrap_or(mark);
        let tally = CpuTally {
            cpu: 1,
            last_tsc,
            ..CpuTally::default()
        };
        timed.push((mark, 1, anchor(mark)));
        timed.push((mark, 2, Event::Tally(tally)));
        timed.push((mark, 3, Event::Watermark(mark)));
    }
    timed.sort_by_key(|&(at_ns, rank, _)| (at_ns, rank));
    [source(0, "some"), anchor(0)]
        .into_iter()
        .chain(timed.into_iter().map(|timed| timed.2))
        .chain([finish()])
        .collect()
}

laws! {
    one_in(1);

    /// All times are whole µs, so that no hole is shorter than 1 µs. The gaps must be those that
    /// the oracle marks, disjoint and in order, and each budget must add up.
    #[test]
    fn gaps_are_as_painted_wherever_the_watermarks_are(
        raw in prop::collection::vec((0..5usize, 1..180u64, 1..30u64, 0..2_000u64), 0..14),
        marks in prop::collection::btree_set(1..300u64, 0..6),
        shown in any_shown(),
    ) {
        let kinds = [
            ActivityKind::Irq,
            ActivityKind::Softirq,
            ActivityKind::Thread,
            ActivityKind::Throttled,
            ActivityKind::Nmi,
        ];
        let activities: Vec<Activity> = raw
            .iter()
            .map(|&(kind, start_us, us, steal_ns)| Activity {
                cpu: 1,
                kind: kinds[kind],
                start_mono_ns: start_us * 1_000,
                end_mono_ns: (start_us + us) * 1_000,
                source: SourceId(0),
                steal_ns,
            })
            .collect();
        let marks: Vec<u64> = marks.iter().map(|us| us * 1_000 + 500).collect();

        let mut facts = facts();
        facts.clock = shown.facts();
        let events = shown.stream(events(&activities, &marks));
        let (budgets, summary) = crate::streams::explain(&facts, &events);

        let ideal_ns = |mono_ns| mono_ns - shown.first_mono_ns;
        let ends = |gap: &Interval| (ideal_ns(gap.start_mono_ns), ideal_ns(gap.end_mono_ns()));
        let found: Vec<(u64, u64)> = budgets.iter().map(ends).collect();
        prop_assert!(found.is_sorted_by(|a, b| a.1 < b.0), "{:?}", found);
        prop_assert_eq!(found, painted(&activities));
        for gap in &budgets {
            prop_assert_eq!(gap.parts.iter().map(|part| part.ns).sum::<u64>(), gap.dur_ns);
            let stamps = (gap_of(gap).start_tsc, gap_of(gap).end_tsc);
            let (from_ns, to_ns) = ends(gap);
            prop_assert_eq!(stamps, (shown.tsc(from_ns), shown.tsc(to_ns)));
        }
        prop_assert_eq!(summary.late_events, 0);
    }
}
