//! Tests pass 1 of a join for guests whose tasks sleep. Such tasks observe no gaps, but their clock
//! is tested all the same. The truth about the pairs of recordings is known.

use crate::streams::any_plans::{any_plan, with_visible_rates};
use crate::streams::pairs::{RecordedPair, RecordingPlan};
use crate::streams::tasks::{PERIOD_NS, with_tasks};
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_explain::{JoinError, PairingFailure, PairingVerdict, Pairs};

const MS: u64 = 1_000_000;

/// Returns the plan of a guest that is the only VM on its host. Its recording is long enough for a
/// verdict.
fn any_tasks() -> impl Strategy<Value = RecordingPlan> {
    let longer = any_plan().prop_map(|plan| RecordingPlan {
        other_vms: 0,
        guest: (plan.guest.0, plan.guest.0 + 1_100 * MS),
        host: (plan.guest.0.min(plan.host.0), plan.guest.0 + 1_200 * MS),
        ..plan
    });
    longer.prop_map(with_visible_rates)
}

/// Returns whether the pair was not refused, but had exits so short that most would lie between two
/// instants by chance.
fn had_little_evidence(error: &JoinError) -> bool {
    let JoinError::Unpaired(unpaired) = error else {
        return false;
    };
    let pairing = &unpaired.pairing;
    let mut pairs = pairing.candidates.iter().flat_map(|vm| &vm.pairs);
    pairing.verdict == PairingVerdict::NotProven && pairs.all(|pair| pair.by_chance_percent > 80.0)
}

/// Returns the largest error of a time that is converted to the other clock, in nanoseconds.
fn worst_ns(plan: &RecordingPlan, pairs: &Pairs, cpu: u32) -> u64 {
    let clocks = &plan.clocks;
    let times = (plan.guest.0..plan.guest.1).step_by(7_000_003);
    let times =
        times.filter(|at_ns| !clocks.is_stopped(at_ns.saturating_sub(30 * MS), at_ns + 30 * MS));
    let off = times.filter_map(|at_ns| {
        let mapped_ns = pairs.map(VcpuId(cpu), clocks.host_mono_ns(at_ns))?;
        Some(mapped_ns.abs_diff(clocks.guest_mono_ns(at_ns)))
    });
    off.max().unwrap_or(0)
}

laws! {
    one_in(192);

    #[test]
    fn the_vcpus_of_tasks_are_found_and_their_clock_is_true(plan in any_tasks()) {
        let outcome = with_tasks(&plan).matched();
        let pairs = match outcome {
            Ok(pairs) => pairs,
            Err(error) => {
                prop_assert!(had_little_evidence(&error), "{error}");
                return Ok(());
            }
        };
        for pair in pairs.pairs() {
            prop_assert_eq!(pairs.cpu_of(VcpuId(pair.cpu)), Some(pair.cpu));
            prop_assert_eq!(pair.exits_inside, pair.exits_tested, "{:?}", pair);
            prop_assert!(worst_ns(&plan, &pairs, pair.cpu) <= pair.bound_ns, "{:?}", pair);
        }
    }

    #[test]
    fn a_wrong_offset_of_tasks_is_refused_or_within_the_bound(
        plan in any_tasks(),
        off_ns in prop_oneof![0_i64..200, 0_i64..100_000, 0_i64..100_000_000],
        ahead in any::<bool>(),
    ) {
        let off_ns = if ahead { off_ns } else { -off_ns };
        let cycles = i128::from(off_ns) * i128::from(plan.clocks.guest_hz()) / 1_000_000_000;
        match with_tasks(&plan).with_offset(cycles as i64).matched() {
            Ok(pairs) => {
                prop_assert!(off_ns.unsigned_abs() < PERIOD_NS / 2, "off by {off_ns}: {:?}", pairs.pairs());
                for pair in pairs.pairs() {
                    let worst_ns = worst_ns(&plan, &pairs, pair.cpu);
                    prop_assert!(worst_ns <= pair.bound_ns, "off by {worst_ns}: {:?}", pair);
                }
            }
            Err(JoinError::Unpaired(_)) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn another_guests_tasks_are_refused(plan in any_tasks(), seed in any::<u64>()) {
        let other = RecordingPlan { seed, ..plan.clone() }.record();
        let mixed = RecordedPair { host: other.host, ..with_tasks(&plan) };
        match mixed.matched() {
            Err(JoinError::Unpaired(_)) => {}
            Ok(pairs) => prop_assert!(seed == plan.seed, "{:?}", pairs.pairs()),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}

/// Returns the failure of a pair that was tested with this verdict. Checks that the error is one
/// line that says what to do next.
fn unpaired(pair: &RecordedPair, verdict: PairingVerdict) -> PairingFailure {
    let error = pair.matched().expect_err("this is no pair");
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains(':'), "{text}");
    match error {
        JoinError::Unpaired(unpaired) if unpaired.pairing.verdict == verdict => *unpaired,
        error => panic!("{error}"),
    }
}

fn tested(unpaired: &PairingFailure) -> (u64, u64) {
    let pair = &unpaired.pairing.candidates[0].pairs[0];
    (pair.exits_tested, pair.exits_tested - pair.exits_inside)
}

#[test]
fn a_clock_that_is_off_says_how_many_exits_hold_an_instant() {
    let pair = with_tasks(&RecordingPlan::plain());
    let wrong = unpaired(&pair.with_offset(700_000), PairingVerdict::Refused);
    let (tested, away) = tested(&wrong);
    assert!(tested > 100 && away * 20 > tested, "{away} of {tested}");
}

#[test]
fn tasks_that_say_too_little_are_not_joined() {
    let mut pair = with_tasks(&RecordingPlan::plain());
    let mut left = 20;
    pair.guest.retain(|event| {
        left -= i32::from(matches!(event, Event::Activation(_)));
        left >= 0 || !matches!(event, Event::Activation(_))
    });
    let (tested, _) = tested(&unpaired(&pair, PairingVerdict::NotProven));
    assert!((1..=100).contains(&tested), "{tested}");
    pair.host.retain(|event| !matches!(event, Event::Exit(_)));
    let (tested, _) = self::tested(&unpaired(&pair, PairingVerdict::NotProven));
    assert_eq!(tested, 0);
}
