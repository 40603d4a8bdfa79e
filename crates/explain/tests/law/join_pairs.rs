//! Tests that the generator of pairs reports the truth about its recordings.

use crate::streams::any_plans::any_plan;
use crate::streams::pairs::{RecordedPair, RecordingPlan, TICK_NS};
use proptest::prelude::*;
use vmnoise_events::Event;

#[test]
fn each_exit_lies_in_a_hole_of_its_guest() {
    let pair = RecordingPlan::plain().record();
    let life = &pair.lives[0];
    assert!(life.gaps.len() > 300 && life.exits.len() > 300);
    for exit in &life.exits {
        let is_held = |hole: &&crate::streams::lives::LifeSpan| {
            hole.start_ns < exit.start_ns && exit.end_ns < hole.end_ns
        };
        let in_run = (100_000_000..2_099_000_000).contains(&exit.start_ns);
        assert_eq!(
            life.away.iter().any(|hole| is_held(&hole)),
            in_run,
            "{exit:?}"
        );
    }
    assert!(life.away.is_sorted_by(|a, b| a.end_ns < b.start_ns));
    let gaps = pair.guest.iter().filter(|it| matches!(it, Event::Gap(_)));
    assert_eq!(gaps.count(), life.gaps.len());
}

/// Returns whether each reading of the clocks, on either side, is later than the reading before.
fn all_clocks_go_on(pair: &RecordedPair) -> bool {
    [&pair.guest, &pair.host].into_iter().all(|events| {
        let anchors = events.iter().filter_map(|event| match event {
            Event::Anchor(anchor) => Some((anchor.before_tsc, anchor.mono_ns)),
            _ => None,
        });
        let anchors: Vec<(u64, u64)> = anchors.collect();
        anchors.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1)
    })
}

/// At the end of a run, the clocks are read once more. Even if this reading follows the last
/// reading closely, its times must be later.
#[test]
fn a_run_that_ends_just_after_a_look_has_that_at_its_end() {
    for seed in 0..100 {
        for after_ns in 0..3 {
            let (from_ns, _) = RecordingPlan::plain().guest;
            let both = (from_ns, from_ns + 10 * TICK_NS + after_ns);
            let pair = RecordingPlan {
                seed,
                guest: both,
                host: both,
                bracket_ns: 3_000,
                ..RecordingPlan::plain()
            };
            assert!(all_clocks_go_on(&pair.record()), "{pair:?}");
        }
    }
}

laws! {
    one_in(16);

    #[test]
    fn what_is_recorded_is_on_the_clocks_of_its_side(plan in any_plan()) {
        let pair = plan.record();
        for (cpu, life) in pair.lives.iter().take(plan.apic_ids.len()).enumerate() {
            let gaps = pair.guest.iter().filter_map(|event| match event {
                Event::Gap(gap) if gap.cpu as usize == cpu => Some((gap.start_tsc, gap.end_tsc)),
                _ => None,
            });
            let clocks = &plan.clocks;
            let truth = life.gaps.iter();
            let truth = truth.map(|it| (clocks.guest_tsc(it.start_ns), clocks.guest_tsc(it.end_ns)));
            let truth: Vec<(u64, u64)> = truth.collect();
            // A counter that went back shows some readings twice.
            let goes_on = truth.is_sorted_by(|a, b| a.0 <= a.1 && a.1 < b.0);
            prop_assert!(goes_on || clocks.goes_back(), "{:?}", truth);
            // Gaps that end after the last drain are not reported.
            let gaps: Vec<(u64, u64)> = gaps.collect();
            let truth = truth.into_iter().filter(|(from, to)| from < to);
            prop_assert!(truth.take(gaps.len()).eq(gaps));
        }
        prop_assert!(all_clocks_go_on(&pair) || plan.clocks.goes_back());
    }
}
