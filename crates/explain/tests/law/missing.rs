//! Tests streams in which one event is missing, at any place. The result must then claim nothing
//! beyond the truth, and must count the loss.

use super::oracle::{LENGTH, Painted, SOURCES, all_over_by, booked, gaps, paint, stream};
use crate::streams::kvm_standards::Standards;
use crate::streams::{explain, facts, gap_of};
use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::{
    Activity, ActivityKind, Event, Gap, Loss, LossKind, MeasuringCommand, RunFacts, Share, SourceId,
};
use vmnoise_explain::{Interval, Summary};

/// A stream of one CPU, with the truth about its gaps.
#[derive(Debug, Clone)]
struct Whole {
    facts: RunFacts,
    gaps: Vec<Gap>,
    activities: Vec<Activity>,
    events: Vec<Event>,
}

impl Whole {
    /// Returns for how long this activity overlaps a gap.
    fn overlap_ns(gap: &Gap, it: &Activity) -> u64 {
        let (from_ns, to_ns) = (
            it.start_mono_ns.max(gap.start_tsc),
            it.end_mono_ns.min(gap.end_tsc),
        );
        to_ns.saturating_sub(from_ns)
    }

    /// Returns the sources that may be named for a gap if no event is missing.
    fn may_be_named(&self, gap: &Gap) -> Vec<Option<u32>> {
        let inside = self.activities.iter();
        let inside = inside.filter(|it| Whole::overlap_ns(gap, it) > 0);
        inside
            .map(|it| (it.source.0 < SOURCES).then_some(it.source.0))
            .collect()
    }

    fn truth(&self, gap: &Gap) -> Painted {
        let standards = Standards::of(&self.activities, SOURCES);
        paint(&self.facts, gap, &self.activities, &standards).0
    }
}

/// Returns a random stream. `counts` says whether the workload counts interferences.
fn any_whole(counts: impl Strategy<Value = bool>) -> impl Strategy<Value = Whole> {
    let kinds = [
        ActivityKind::Thread,
        ActivityKind::Softirq,
        ActivityKind::Irq,
        ActivityKind::Nmi,
        ActivityKind::Throttled,
        ActivityKind::Exit,
        ActivityKind::Vmm,
    ];
    let activity = (0..kinds.len(), 0..LENGTH, 1..30_u64, 0..SOURCES + 1);
    (
        vec(0..LENGTH, 2..10),
        vec(activity, 0..8),
        vec(1..2 * LENGTH, 0..4),
        (any::<bool>(), any::<bool>(), counts),
    )
        .prop_map(move |(cuts, activities, marks, bits)| {
            let (in_a_machine, polls, counts) = bits;
            let mut facts = facts();
            facts.host.hypervisor = in_a_machine.then(|| "KVM".into());
            facts.workload = if polls {
                MeasuringCommand::Osnoise
            } else {
                MeasuringCommand::Microvm
            };
            let activities: Vec<Activity> = activities
                .into_iter()
                .map(|(kind, start_mono_ns, len_ns, source)| Activity {
                    cpu: 1,
                    kind: kinds[kind],
                    start_mono_ns,
                    end_mono_ns: start_mono_ns + len_ns,
                    source: SourceId(source),
                    steal_ns: 0,
                })
                .collect();
            let mut gaps = gaps(cuts, &[0]);
            gaps.retain(|gap| gap.start_tsc < gap.end_tsc);
            for gap in gaps.iter_mut().filter(|_| counts) {
                let interfered = activities.iter().filter(|it| it.kind.is_interference());
                let interfered = interfered.filter(|it| Whole::overlap_ns(gap, it) > 0);
                gap.interference = Some(interfered.count() as u32);
            }
            let is_true = |mark: &u64| gaps.iter().all(|gap| all_over_by(*mark, gap, &activities));
            let mut marks: Vec<u64> = marks.into_iter().filter(is_true).collect();
            marks.sort_unstable();
            marks.dedup();
            Whole {
                events: stream(&gaps, &activities, &marks),
                facts,
                gaps,
                activities,
            }
        })
}

/// Returns the loss that a recorder reports instead of this event, if any.
pub(super) fn reported_instead(event: &Event) -> Option<Event> {
    let kind = match event {
        Event::Gap(_) => LossKind::MailboxFull,
        Event::Activity(_) | Event::Exit(_) | Event::VcpuInterval(_) => LossKind::RingFull,
        _ => return None,
    };
    Some(Event::Loss(Loss { kind, count: 1 }))
}

/// Returns the stream without the event at `place`, and this event. The recorder's loss replaces
/// the event.
pub(super) fn without(mut events: Vec<Event>, place: usize) -> (Vec<Event>, Event) {
    let missing = events.remove(place);
    if let Some(reported) = reported_instead(&missing) {
        events.insert(place, reported);
    }
    (events, missing)
}

fn named(budget: &Interval) -> Painted {
    let mut named = booked(budget);
    named.retain(|(share, _), _| !share.is_residual());
    named
}

fn ns_of(painted: &Painted, wanted: impl Fn(Share) -> bool) -> u64 {
    let of = painted.iter().filter(|((share, _), _)| wanted(*share));
    of.map(|(_, ns)| ns).sum()
}

/// Asserts that only sources that overlap the gap are named, each with at most its true time plus
/// the missing activity's time. If the missing activity overlaps the gap, no time may be
/// hardware's; otherwise all named parts are true.
fn blames_nobody_else(
    whole: &Whole,
    gap: &Gap,
    missing: &Activity,
    budget: &Interval,
) -> Result<(), TestCaseError> {
    let lost_ns = Whole::overlap_ns(gap, missing);
    let (truth, named) = (whole.truth(gap), named(budget));
    let may_be_named = whole.may_be_named(gap);
    for ((share, source), ns) in &named {
        let is_there = *share == Share::Steal || may_be_named.contains(source);
        prop_assert!(is_there, "{share} {source:?}: {budget:?}");
        let truth_ns = truth.get(&(*share, *source)).copied().unwrap_or(0);
        prop_assert!(*ns <= truth_ns + lost_ns, "{share} {source:?}: {budget:?}");
    }
    let all_ns: u64 = booked(budget).values().sum();
    prop_assert_eq!(all_ns, gap.end_tsc - gap.start_tsc);
    if lost_ns == 0 {
        let truth: Painted = truth
            .into_iter()
            .filter(|((share, _), _)| !share.is_residual())
            .collect();
        prop_assert_eq!(named, truth);
    } else {
        prop_assert_eq!(budget.ns_of(Share::Hw), 0, "{:?}", budget);
        let hw = gap_of(budget).interference.hw;
        prop_assert!(hw != Some(1), "{:?}", budget);
    }
    Ok(())
}

fn without_an_activity(
    whole: &Whole,
    missing: &Activity,
    budgets: &[Interval],
) -> Result<(), TestCaseError> {
    prop_assert_eq!(budgets.len(), whole.gaps.len());
    for (gap, budget) in whole.gaps.iter().zip(budgets) {
        blames_nobody_else(whole, gap, missing, budget)?;
    }
    Ok(())
}

/// Asserts that all other gaps keep their true named time, and get no more hardware time than in
/// truth.
fn without_a_gap(whole: &Whole, missing: &Gap, budgets: &[Interval]) -> Result<(), TestCaseError> {
    let others = whole
        .gaps
        .iter()
        .filter(|gap| gap.start_tsc != missing.start_tsc);
    prop_assert_eq!(budgets.len() + 1, whole.gaps.len());
    for (gap, budget) in others.zip(budgets) {
        let truth = whole.truth(gap);
        let is_named = |share: Share| !share.is_residual();
        prop_assert_eq!(ns_of(&booked(budget), is_named), ns_of(&truth, is_named));
        let hw = |painted: &Painted| ns_of(painted, |share| share == Share::Hw);
        prop_assert!(hw(&booked(budget)) <= hw(&truth), "{budget:?}");
    }
    Ok(())
}

/// Returns the time of each share in each budget, without the sources.
fn unnamed(budgets: &[Interval]) -> Vec<Vec<(Share, u64)>> {
    let of_budget = |budget: &Interval| {
        let shares = Share::ALL.into_iter();
        shares.map(|share| (share, budget.ns_of(share))).collect()
    };
    budgets.iter().map(of_budget).collect()
}

/// Returns whether the summary counts the missing event.
fn is_counted(summary: &Summary, missing: &Event) -> bool {
    let lost = &summary.coverage.lost;
    match missing {
        Event::Gap(_) => lost.gaps == 1 && summary.lost_events == 1,
        Event::Activity(_) => lost.names >= 1 && summary.lost_events == 1,
        Event::Finish(_) => !summary.complete,
        _ => true,
    }
}

laws! {
    one_in(1);

    #[test]
    fn a_missing_event_makes_nothing_firmer(
        whole in any_whole(any::<bool>()),
        place in any::<prop::sample::Index>(),
    ) {
        let place = place.index(whole.events.len());
        let (events, missing) = without(whole.events.clone(), place);
        let (budgets, summary) = explain(&whole.facts, &events);
        match &missing {
            Event::Activity(activity) => without_an_activity(&whole, activity, &budgets)?,
            Event::Gap(gap) => without_a_gap(&whole, gap, &budgets)?,
            Event::Anchor(_) if !events.iter().any(|event| matches!(event, Event::Anchor(_))) => {
                // Without an anchor, no activity can be dated.
                prop_assert!(budgets.iter().all(|budget| budget.ns_of(Share::Hw) == 0));
            }
            // All anchors lie on one line, and the result depends on no single watermark or tally.
            // Without the finish, gaps that wait for more events are not explained.
            _ => {
                let (all, _) = explain(&whole.facts, &whole.events);
                prop_assert!(unnamed(&all).starts_with(&unnamed(&budgets)), "{missing:?}");
                let is_whole = budgets.len() == all.len() || matches!(missing, Event::Finish(_));
                prop_assert!(is_whole, "{missing:?}");
            }
        }
        prop_assert!(is_counted(&summary, &missing), "{missing:?}: {summary:?}");
    }

    /// The recorder does not count this loss, but the workload's own counter shows it.
    #[test]
    fn a_counter_misses_what_no_recorder_lost(
        whole in any_whole(Just(true)),
        place in any::<prop::sample::Index>(),
    ) {
        let place = place.index(whole.events.len());
        let Event::Activity(missing) = whole.events[place] else { return Ok(()) };
        if !missing.kind.is_interference() {
            return Ok(());
        }
        let mut events = whole.events.clone();
        events.remove(place);
        let (budgets, summary) = explain(&whole.facts, &events);
        without_an_activity(&whole, &missing, &budgets)?;
        let touched = whole.gaps.iter().filter(|gap| Whole::overlap_ns(gap, &missing) > 0);
        prop_assert_eq!(summary.coverage.lost.names, touched.count() as u64);
    }
}
