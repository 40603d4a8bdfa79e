//! Tests a guest that pauses. The time between its pauses counts as polled, even if the guest hands
//! over many gaps in this time.

use crate::streams::pairs::{RecordedPair, RecordingPlan};
use vmnoise_events::Event;
use vmnoise_explain::{JoinError, VcpuPair};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Time for handing over one gap, in ticks of the guest's counter. The counter of the plan's guest
/// ticks in nanoseconds. A system call hands over the gap if BPF reads the steal clock.
const HANDING_OVER_TSC: u64 = 1_500;

/// Returns a plan with about a thousand gaps per second, one for each tick.
fn plan() -> RecordingPlan {
    RecordingPlan {
        run_ns: (800 * US, 1_000 * US),
        exit_ns: (2 * US, 40 * US),
        polled_ms: 80,
        threshold_ns: US,
        ..RecordingPlan::plain()
    }
}

/// Returns this pair with a guest that does not poll while it hands over a gap.
fn handing_over(mut pair: RecordedPair) -> RecordedPair {
    let gaps = pair.guest.iter().filter_map(|event| match event {
        Event::Gap(gap) => Some(gap.end_tsc),
        _ => None,
    });
    let mut ends: Vec<u64> = gaps.collect();
    ends.sort_unstable();
    for event in &mut pair.guest {
        if let Event::Tally(tally) = event {
            let reported = ends.partition_point(|end_tsc| *end_tsc <= tally.last_tsc) as u64;
            tally.blind_tsc = tally.blind_tsc.map(|tsc| tsc + reported * HANDING_OVER_TSC);
        }
    }
    pair
}

fn joined(pair: &RecordedPair) -> VcpuPair {
    match pair.matched() {
        Ok(pairs) => pairs.pairs()[0].clone(),
        Err(JoinError::Unpaired(unpaired)) => panic!("{unpaired}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn gaps_that_are_handed_over_are_no_pause() {
    let pair = plan().record();
    let at_once = joined(&pair);
    println!("at once: {at_once:?}");
    let handed = joined(&handing_over(pair));
    println!("handed over: {handed:?}");
    assert!(at_once.exits_tested > 500, "{at_once:?}");
    assert_eq!(at_once.exits_inside, at_once.exits_tested);
    // A window between two tallies may be left out if the handovers take more than a 20th of it. In
    // about one of a hundred windows, a tally comes in the middle of a gap and so ends the window
    // early.
    assert!(handed.exits_tested * 100 >= at_once.exits_tested * 99);
    assert_eq!(handed.exits_inside, handed.exits_tested);
}

/// The time allowed for handing over 20 gaps does not hide a pause of 2 ms.
#[test]
fn a_pause_between_many_gaps_is_one() {
    let plan = RecordingPlan {
        polled_ms: 98,
        ..plan()
    };
    let pair = handing_over(plan.record());
    let paused: Vec<_> = pair.lives[0].pauses.clone();
    assert!(paused.len() > 10);
    let found = joined(&pair);
    // No window of 20 ms with a pause was tested, so four of five windows are left.
    let all = pair.lives[0].exits.iter();
    let all =
        all.filter(|exit| plan.guest.0 + MS < exit.start_ns && exit.end_ns < plan.guest.1 - MS);
    let observed = all.filter(|exit| exit.end_ns - exit.start_ns >= plan.threshold_ns);
    let left = observed.count() as u64 * 4 / 5;
    println!("{found:?} of {left}");
    assert_eq!(found.exits_inside, found.exits_tested);
    assert!(found.exits_tested <= left, "{found:?} of {left}");
}
