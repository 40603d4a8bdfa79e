//! Compares the sweep with an independent oracle, which assigns every nanosecond of small gaps. In
//! these streams, events come in the order of their ends, and all watermarks are true. Therefore no
//! event may be late, wherever the watermarks are.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::holds_for;
use crate::streams::any_plans::any_shown;
use crate::streams::blocks::{BLOCK, Block, any_block, block};
use crate::streams::clocks::Shown;
use crate::streams::kvm_standards::Standards;
use crate::streams::{anchor, facts, finish, gap_of, source, with_steal};
use proptest::prelude::*;
use vmnoise_events::{
    Activity, ActivityKind, CpuTally, Event, Gap, MeasuringCommand, RunFacts, Share,
};
use vmnoise_explain::Interval;

pub(super) const LENGTH: u64 = 120;
pub(super) const SOURCES: u32 = 3;

pub(super) type Painted = BTreeMap<(Share, Option<u32>), u64>;

fn share(workload: MeasuringCommand, kind: ActivityKind) -> Share {
    let (of_guest, of_host) = match kind {
        ActivityKind::Exit => (Share::Kvm, Share::Kvm),
        ActivityKind::Vmm => (Share::Vmm, Share::Vmm),
        ActivityKind::Throttled => (Share::Throttled, Share::Throttled),
        ActivityKind::Thread => (Share::Thread, Share::Preempted),
        ActivityKind::Blocked | ActivityKind::Stopped => (Share::Blocked, Share::Blocked),
        ActivityKind::Softirq => (Share::Softirq, Share::HostSoftirq),
        ActivityKind::Irq => (Share::Irq, Share::HostIrq),
        ActivityKind::Nmi => (Share::Nmi, Share::HostNmi),
    };
    match workload {
        MeasuringCommand::Osnoise => of_guest,
        MeasuringCommand::Microvm => of_host,
        MeasuringCommand::Observed | MeasuringCommand::Exits | MeasuringCommand::Timerlat => {
            unreachable!("nobody feels their gaps")
        }
    }
}

/// Compares two activities by precedence. The owner of a nanosecond is the activity with the
/// highest precedence.
fn outranks(a: &Activity, b: &Activity) -> Ordering {
    (a.kind, a.start_mono_ns)
        .cmp(&(b.kind, b.start_mono_ns))
        .then(b.end_mono_ns.cmp(&a.end_mono_ns))
        .then(a.source.cmp(&b.source))
        .then(a.steal_ns.cmp(&b.steal_ns))
}

/// Returns whether `inner`, which has higher precedence, lies completely inside `outer`.
fn holds(outer: &Activity, inner: &Activity) -> bool {
    outer.start_mono_ns <= inner.start_mono_ns
        && inner.start_mono_ns < outer.end_mono_ns
        && inner.end_mono_ns <= outer.end_mono_ns
}

/// Returns the steal time of `activities[index]`, without the steal time of the activities that are
/// nested directly in it. `activities` are sorted by ascending precedence.
fn own_steal_ns(activities: &[&Activity], index: usize) -> u64 {
    let outer = activities[index];
    let held = activities[index + 1..].iter().enumerate();
    let nested_ns: u64 = held
        .filter(|(_, inner)| holds(outer, inner))
        .filter(|&(place, inner)| {
            let between = &activities[index + 1..index + 1 + place];
            !between.iter().any(|middle| holds(middle, inner))
        })
        .map(|(_, inner)| inner.steal_ns)
        .sum();
    outer.steal_ns.saturating_sub(nested_ns)
}

/// Returns the budget of a gap, and the part of KVM's time that has no upper bound.
pub(super) fn paint(
    facts: &RunFacts,
    gap: &Gap,
    activities: &[Activity],
    standards: &Standards,
) -> (Painted, u64) {
    let mut overlapping: Vec<&Activity> = activities
        .iter()
        .filter(|a| a.start_mono_ns < gap.end_tsc && a.end_mono_ns > gap.start_tsc)
        .collect();
    overlapping.sort_by(|a, b| outranks(a, b));
    let mut net_ns = vec![0; overlapping.len()];
    let (mut bare, mut waiting) = (0, 0);
    for now in gap.start_tsc..gap.end_tsc {
        let active = |a: &Activity| a.start_mono_ns <= now && now < a.end_mono_ns;
        match overlapping.iter().rposition(|a| active(a)) {
            Some(owner) => net_ns[owner] += 1,
            None => bare += 1,
        }
        let waits = |a: &Activity| matches!(a.kind, ActivityKind::Thread | ActivityKind::Throttled);
        waiting += u64::from(overlapping.iter().any(|a| active(a) && waits(a)));
    }
    let mut painted = Painted::new();
    let touched = !overlapping.is_empty() || gap.reloads > 0;
    let rest = match (facts.host.hypervisor.is_some(), touched) {
        (true, _) => Share::HvOrHw,
        (false, true) => Share::Unexplained,
        (false, false) => Share::Hw,
    };
    let (mut inner_steal, mut unbounded) = (0, 0);
    for (index, activity) in overlapping.iter().enumerate() {
        let own = match facts.witnesses.activity_steal {
            true => own_steal_ns(&overlapping, index).min(net_ns[index]),
            false => 0,
        };
        inner_steal += own;
        let source = (activity.source.0 < SOURCES).then_some(activity.source.0);
        let share = share(facts.workload, activity.kind);
        let mut own_ns = net_ns[index] - own;
        if activity.kind == ActivityKind::Exit {
            let (surplus, untested) =
                standards.judge(&overlapping, index, own_ns, gap.start_tsc, SOURCES);
            own_ns -= surplus;
            unbounded += untested;
            *painted.entry((rest, source)).or_default() += surplus;
        }
        *painted.entry((share, source)).or_default() += own_ns;
    }
    let (stolen, left) = match facts.workload {
        MeasuringCommand::Osnoise => {
            let more = gap.steal_ns.saturating_sub(inner_steal).min(bare);
            (inner_steal + more, bare - more)
        }
        MeasuringCommand::Microvm => {
            let stolen = gap.steal_ns.saturating_sub(waiting).min(bare);
            (stolen, bare - stolen + inner_steal)
        }
        MeasuringCommand::Observed | MeasuringCommand::Exits | MeasuringCommand::Timerlat => {
            unreachable!("nobody feels their gaps")
        }
    };
    assert!(stolen <= gap.steal_ns.max(inner_steal));
    *painted.entry((Share::Steal, None)).or_default() += stolen;
    *painted.entry((rest, None)).or_default() += left;
    painted.retain(|_, ns| *ns > 0);
    (painted, unbounded)
}

pub(super) fn booked(budget: &Interval) -> Painted {
    let parts = crate::streams::parts(budget);
    let booked: Painted = parts
        .iter()
        .map(|&(share, id, ns)| ((share, id), ns))
        .collect();
    assert_eq!(
        booked.len(),
        parts.len(),
        "a source is booked twice under one share"
    );
    booked
}

/// Cuts `0..LENGTH` at `cuts`, and returns every second piece as a gap. Gaps of one CPU never
/// overlap.
pub(super) fn gaps(mut cuts: Vec<u64>, steal: &[u64]) -> Vec<Gap> {
    cuts.sort_unstable();
    cuts.chunks_exact(2)
        .zip(steal.iter().cycle())
        .map(|(ends, &steal_ns)| Gap {
            steal_ns,
            reloads: (steal_ns % 2) as u32,
            ..crate::streams::gap(ends[0], ends[1])
        })
        .collect()
}

/// Returns whether a watermark at `mark` can be true for this gap. An activity that takes the CPU
/// from the workload ends before the workload runs again. If the gap has ended by `mark`, all
/// activities that reach into the gap must therefore have ended by `mark`.
pub(super) fn all_over_by(mark: u64, gap: &Gap, activities: &[Activity]) -> bool {
    gap.end_tsc > mark
        || activities
            .iter()
            .all(|a| a.start_mono_ns >= gap.end_tsc || a.end_mono_ns <= mark)
}

/// Returns all events in the order of their ends, with watermarks, anchors and tallies at `marks`.
pub(super) fn stream(gaps: &[Gap], activities: &[Activity], marks: &[u64]) -> Vec<Event> {
    let ends = gaps.iter().map(|gap| (gap.end_tsc, 0, Event::Gap(*gap)));
    let reported = activities
        .iter()
        .map(|a| (a.end_mono_ns, 1, Event::Activity(*a)));
    let marks = marks.iter().flat_map(|&mark| {
        // The workload read its clock at the mark, unless a gap contains the mark.
        let away = gaps
            .iter()
            .find(|gap| gap.start_tsc < mark && mark < gap.end_tsc);
        let last_tsc = away.map_or(mark, |gap| gap.start_tsc);
        let tally = CpuTally {
            cpu: 1,
            last_tsc,
            ..CpuTally::default()
        };
        // Only some marks bring an anchor, so gaps may have to wait for a later anchor.
        let dated = (mark % 2 == 0).then(|| (mark, 2, anchor(mark)));
        let reported = [
            (mark, 3, Event::Tally(tally)),
            (mark, 4, Event::Watermark(mark)),
        ];
        dated.into_iter().chain(reported)
    });
    let mut timed: Vec<(u64, u8, Event)> = ends.chain(reported).chain(marks).collect();
    timed.sort_by_key(|&(end, rank, _)| (end, rank));
    let named = (0..SOURCES).map(|id| source(id, "some"));
    named
        .chain([anchor(0)])
        .chain(timed.into_iter().map(|timed| timed.2))
        .chain([finish()])
        .collect()
}

laws! {
    one_in(1);

    #[test]
    fn every_nanosecond_is_booked_as_painted(
        cuts in prop::collection::vec(0..LENGTH, 2..10),
        steal in prop::collection::vec(0..60u64, 1..3),
        raw in prop::collection::vec(
            (0..8usize, 0..LENGTH, 0..50u64, 0..SOURCES + 1, 0..60u64),
            0..10,
        ),
        mut marks in prop::collection::vec(1..2 * LENGTH, 0..4),
        in_a_machine in any::<bool>(),
        polls in any::<bool>(),
        activity_steal in any::<bool>(),
        shown in any_shown(),
    ) {
        let gaps = gaps(cuts, &steal);
        let activities: Vec<Activity> = raw
            .into_iter()
            .map(|(kind, start, length, id, steal)| {
                let kind = ActivityKind::ALL[kind];
                // Half of the activities have no steal time, like most activities of a run.
                let event = with_steal(kind, start, start + length, id, steal.saturating_sub(30));
                let Event::Activity(activity) = event else { unreachable!() };
                activity
            })
            .collect();
        marks.retain(|&mark| gaps.iter().all(|gap| all_over_by(mark, gap, &activities)));
        marks.sort_unstable();
        marks.dedup();
        let mut facts = facts();
        facts.host.hypervisor = in_a_machine.then(|| "KVM".to_string()).map(Into::into);
        facts.witnesses.activity_steal = activity_steal;
        if polls {
            facts.workload = MeasuringCommand::Osnoise;
        }

        books_as_painted(&facts, &gaps, &activities, &marks, shown)?;
    }
}

/// Checks that each budget is that of the oracle. Returns the number of gaps in which KVM's time
/// was too long, and the number of gaps in which it had no upper bound.
fn books_as_painted(
    facts: &RunFacts,
    gaps: &[Gap],
    activities: &[Activity],
    marks: &[u64],
    shown: Shown,
) -> Result<[u64; 2], TestCaseError> {
    let facts = &RunFacts {
        clock: shown.facts(),
        ..facts.clone()
    };
    let events = shown.stream(stream(gaps, activities, marks));
    let (budgets, summary) = crate::streams::explain(facts, &events);
    let standards = Standards::of(activities, SOURCES);
    prop_assert_eq!(summary.late_events, 0);
    prop_assert_eq!(budgets.len(), gaps.len());
    let mut unbounded_ns = 0;
    let mut bounded = [0; 2];
    for (gap, budget) in gaps.iter().zip(&budgets) {
        let place = (gap_of(budget).start_tsc, budget.dur_ns);
        let length_ns = gap.end_tsc - gap.start_tsc;
        prop_assert_eq!(place, (shown.tsc(gap.start_tsc), length_ns));
        let painted = paint(facts, gap, activities, &standards);
        let too_much = painted
            .0
            .keys()
            .any(|(share, who)| share.is_residual() && who.is_some());
        bounded[0] += u64::from(too_much);
        bounded[1] += u64::from(painted.1 > 0);
        unbounded_ns += painted.1;
        prop_assert_eq!((booked(budget), gap_of(budget).unbounded_kvm_ns), painted);
    }
    let reported = summary.cpus.iter().filter_map(|cpu| cpu.unbounded_kvm_ns);
    prop_assert_eq!(reported.sum::<u64>(), unbounded_ns);
    Ok(bounded)
}

/// The stream is long enough that KVM's usual time becomes known for some reasons, but not for
/// others.
#[test]
fn every_nanosecond_of_a_long_stream_is_booked_as_painted() {
    let streams = (
        prop::collection::vec(any_block(), 900..1_100),
        any::<bool>(),
        any::<bool>(),
        1..40_usize,
        any_shown(),
    );
    let (streams_seen, seen) = (std::cell::Cell::new(0), std::cell::RefCell::new([0; 2]));
    type Stream = (Vec<Block>, bool, bool, usize, Shown);
    let books = |(blocks, in_a_machine, activity_steal, round, shown): Stream| {
        let mut facts = facts();
        facts.host.hypervisor = in_a_machine.then(|| "KVM".to_string()).map(Into::into);
        facts.witnesses.activity_steal = activity_steal;
        let marks = (1..=blocks.len() / round).map(|nth| (nth * round) as u64 * BLOCK);
        let marks: Vec<u64> = marks.collect();
        let blocks = blocks.into_iter().enumerate();
        let (reported, gaps): (Vec<_>, Vec<_>) = blocks.map(|(at, it)| block(at, it)).unzip();
        let gaps: Vec<Gap> = gaps.into_iter().flatten().collect();
        let reported: Vec<Activity> = reported.into_iter().flatten().collect();
        let found = books_as_painted(&facts, &gaps, &reported, &marks, shown)?;
        streams_seen.set(streams_seen.get() + 1);
        let mut seen = seen.borrow_mut();
        seen.iter_mut()
            .zip(found)
            .for_each(|(all, more)| *all += more);
        Ok(())
    };
    holds_for(128, streams, books);
    // About 430 blocks contain a hundred exits that have the first reason and no other work. Half
    // of the later exits are observed. Of these, 6 in 10 have the first reason; of these, 2 in 9
    // contain other work; of these, half are longer. About 17 exits of a stream remain. With four
    // streams or more, chance cannot reduce the average to 2.
    let (streams, seen) = (streams_seen.get(), seen.into_inner());
    assert!(
        seen.iter().all(|gaps| *gaps > 2 * streams),
        "too much, not tested: {seen:?} in {streams} streams"
    );
}
