//! Tests the bound of the clock error if an exact answer would take too long.

use std::time::Instant;

use super::super::observed_cpu::ObservedCpu;
use super::super::odds::PairingVerdict;
use super::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const HZ: u64 = 1_000_000_000;
/// Limits that `Matcher` sets for a guest with one CPU.
const LOOKS: Looks = Looks {
    aim: 1 << 20,
    most: 1 << 20,
};
/// Error of the recorded clock, in nanoseconds.
const OFF: u64 = 30 * MS;

/// Returns a gap of 100 ms with an exit of 20 ms in its middle, and `count` short gaps. Each short
/// gap lies at a random place in its 100 us, and an exit almost fills it. All exits are placed
/// later by `off`, the error of the clock.
fn observed(count: u64, off: u64) -> (ObservedCpu, Vec<Span>) {
    let mut observed = ObservedCpu::default();
    observed.gaps = vec![(1_000 * MS, 1_100 * MS)];
    observed.polled = vec![(900 * MS, 1_300 * MS + count * 100 * US)];
    let mut exits = vec![(1_040 * MS, 1_060 * MS)];
    let mut seed = 7_u64;
    for nth in 0..count {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let start = 1_200 * MS + nth * 100 * US + (seed >> 33) % (80 * US);
        observed.gaps.push((start, start + 10 * US));
        exits.push((start + US, start + 9 * US));
    }
    let exits = exits.into_iter().map(|(from, to)| (from + off, to + off));
    (observed, exits.collect())
}

fn tests(holes: &Holes<'_>, exits: &[Span]) -> Tests {
    let mut tests = Tests {
        rules: Rules {
            threshold_ns: US,
            margin_ns: 0,
            loses_gaps: true,
            bounds: true,
        },
        stray: STRAY,
        ..Tests::default()
    };
    for exit in exits {
        tests.add(holes, *exit, holes.chance(exit.1 - exit.0, 0));
    }
    tests
}

#[test]
fn a_hundred_thousand_exits_by_a_wrong_clock_are_refused_and_soon() {
    let (observed, exits) = observed(100_000, OFF);
    let holes = Holes::of(&observed);
    let begun = Instant::now();
    let evidence = tests(&holes, &exits).summarize(&holes, HZ, LOOKS);
    println!("{:?}: {evidence:?}", begun.elapsed());
    assert!(evidence.tested > 1_000);
    assert_eq!(
        PairingVerdict::of(evidence.decades),
        PairingVerdict::Refused
    );
    assert_eq!(PairingVerdict::of(evidence.misfit), PairingVerdict::Refused);
    // The search does not visit every offset. An unvisited offset may be right, so the bound
    // includes it.
    assert!(evidence.widest_slack_ns() >= Some(OFF), "{evidence:?}");
}

#[test]
fn what_would_take_too_long_to_look_at_is_left_open() {
    let (observed, exits) = observed(1_000, 0);
    let holes = Holes::of(&observed);
    let tests = tests(&holes, &exits);
    let open = (-20 * MS.cast_signed(), 20 * MS.cast_signed());
    let looks = |exit: &Span| holes.places_near(*exit, 20 * MS).len();
    let all = exits.iter().map(looks).sum();
    // The result is exact to the nanosecond, because each exit has 1 us of room on either side.
    let reported = (-US.cast_signed(), US.cast_signed());
    assert_eq!(tests.reach(&holes, open, 0, all), Some(reported));
    assert_eq!(tests.reach(&holes, open, 0, all - 1), Some(open));
}
