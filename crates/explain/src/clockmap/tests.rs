use super::*;
use vmnoise_events::ClockSource;

fn map(anchors: &[(u64, u64)]) -> ClockMap {
    let mut map = ClockMap::new(&ClockFacts {
        source: ClockSource::Tsc,
        tsc_hz: 2_000_000_000,
        offset_proof: None,
        offset_tsc: 0,
        offset_bound_tsc: 10,
        bracket_tsc: 0,
    });
    for &(tsc, mono_ns) in anchors {
        let anchor = Anchor {
            before_tsc: tsc - 20,
            mono_ns,
            after_tsc: tsc + 20,
        };
        assert!(map.add(&anchor));
    }
    map
}

#[test]
fn interpolates_between_and_extrapolates_outside() {
    let map = map(&[(1000, 500), (3000, 1500), (4000, 2500)]);
    assert_eq!(map.mono_ns(1000), 500);
    assert_eq!(map.mono_ns(2000), 1000);
    assert_eq!(map.mono_ns(3500), 2000);
    assert_eq!(map.mono_ns(5000), 3500);
    assert_eq!(map.mono_ns(998), 499);
    assert_eq!(map.mono_ns(999), 499);
    assert_eq!(map.mono_ns(0), 0);
}

#[test]
fn without_a_pair_the_measured_frequency_serves() {
    assert_eq!(map(&[]).mono_ns(2000), 1000);
    assert_eq!(map(&[(1000, 5000)]).mono_ns(1200), 5100);
    assert_eq!(map(&[(1000, 5000)]).mono_ns(800), 4900);
}

#[test]
fn extremes_stop_at_the_ends_of_the_clock() {
    let map = map(&[(20, u64::MAX - 10), (21, u64::MAX)]);
    assert_eq!(map.mono_ns(u64::MAX), u64::MAX);
    assert_eq!(map.mono_ns(0), u64::MAX - 210);
}

#[test]
fn is_monotone_across_a_change_of_slope() {
    let map = map(&[(100, 1000), (107, 1003), (150, 1090), (1000, 1100)]);
    let times: Vec<u64> = (0..2000).map(|tsc| map.mono_ns(tsc)).collect();
    assert!(times.is_sorted());
}

#[test]
fn refuses_anchors_that_go_back() {
    let mut map = map(&[(1000, 500)]);
    for (before_tsc, mono_ns, after_tsc) in [(990, 600, 1010), (1090, 500, 1110), (9, 900, 8)] {
        assert!(!map.add(&Anchor {
            before_tsc,
            mono_ns,
            after_tsc
        }));
    }
    assert!(map.covers(1000) && !map.covers(1001));
}

#[test]
fn a_counter_that_goes_back_is_no_anchor_that_comes_twice() {
    let map = map(&[(1000, 500)]);
    let went_back = |tsc, mono_ns| {
        map.is_lost_at(&Anchor {
            before_tsc: tsc,
            mono_ns,
            after_tsc: tsc,
        })
    };
    assert!(went_back(900, 600));
    assert!(!went_back(1_100, 600) && !went_back(1_000, 600));
    assert!(!went_back(900, 500) && !went_back(900, 400));
}

const MS: u64 = 1_000_000;

/// Returns a map with one anchor each 20 ms. At each anchor, the TSC (2 GHz) is ahead by the
/// next value of `ahead_tsc`, in cycles.
fn each_20_ms(ahead_tsc: &[u64]) -> ClockMap {
    let anchors = (1..).zip(ahead_tsc);
    let anchors = anchors.map(|(nth, ahead)| (nth * 40 * MS + ahead, nth * 20 * MS));
    map(&anchors.collect::<Vec<_>>())
}

#[test]
fn between_two_anchors_around_a_jump_nothing_is_dated() {
    let second = 2_000 * MS;
    let map = each_20_ms(&[0, 0, second, second]);
    assert_eq!(map.jumps(), 1);
    let (before, after) = (80 * MS, 120 * MS + second);
    assert!(!map.jumped_between(0, before) && !map.jumped_between(after, u64::MAX));
    assert!(map.jumped_between(before - 1, before + 1));
    assert!(map.jumped_between(after - 1, after + 1));
    assert!(map.jumped_between(before - 1, after + 1));
    assert_eq!(map.jumped_ns((0, u64::MAX)), 20 * MS);
    assert_eq!(map.jumped_ns((50 * MS, 55 * MS)), 5 * MS);
    // The lines next to the jump do not change. The bound comes from them: half a bracket, plus
    // the offset.
    assert_eq!(map.mono_ns(before - 2_000), 40 * MS - 1_000);
    assert_eq!(map.mono_ns(after + 2_000), 60 * MS + 1_000);
    assert_eq!(map.bound_ns(), Some(15));
    // A jump at either end has no line to extend.
    let (first, last) = (each_20_ms(&[0, second]), each_20_ms(&[0, 0, second]));
    assert_eq!(first.mono_ns(40 * MS - 2_000), 20 * MS - 1_000);
    assert_eq!(last.mono_ns(after + 2_000), 60 * MS + 1_000);
}

#[test]
fn readings_that_a_tsc_shows_twice_are_not_dated() {
    // The TSC went back by 10 ms, but exceeds its last reading again. It ran for at most 20 ms,
    // plus a 200th part, plus 10 us. All of this may be before the jump, or after it.
    let ms = 2 * MS;
    let map = each_20_ms(&[30 * ms, 30 * ms, 20 * ms]);
    let (before, after) = (70 * ms, 80 * ms);
    assert_eq!(map.jumps(), 1);
    let most = 20 * ms + ms / 10 + ms / 100;
    let (first, end) = (after - most, before + most);
    assert!(map.jumped_between(end - 1, end) && map.jumped_between(first, first + 1));
    assert!(!map.jumped_between(end, end + 1) && !map.jumped_between(first - 1, first));
}

#[test]
fn a_jump_of_the_same_length_once_more_is_no_rate() {
    let second = 2_000 * MS;
    assert_eq!(each_20_ms(&[0, 0, second, 2 * second]).jumps(), 2);
}

#[test]
fn a_clock_that_is_set_by_its_rate_does_not_jump() {
    // 500 ppm are 20,000 cycles of 20 ms. 8 % exceeds any discipline of a clock, and continues.
    assert_eq!(each_20_ms(&[0, 20_000, 0, 20_000]).jumps(), 0);
    let step = 3_200_000;
    let ahead: Vec<u64> = (0..100).map(|nth| nth * step).collect();
    let fast = each_20_ms(&[&[0], &ahead[..]].concat());
    assert_eq!(fast.jumps(), 1);
}

#[test]
fn a_clock_that_jumps_without_end_is_followed_for_a_while() {
    let second = 2_000 * MS;
    let ahead: Vec<u64> = (0..64).map(|nth| nth * nth * second).collect();
    let once_more = |ahead: u64| Anchor {
        before_tsc: 65 * 40 * MS + ahead,
        mono_ns: 65 * 20 * MS,
        after_tsc: 65 * 40 * MS + ahead,
    };
    let mut map = each_20_ms(&ahead);
    let next = once_more(64 * 64 * second);
    assert!(!map.is_lost_at(&next) && map.add(&next));
    let more = Anchor {
        mono_ns: next.mono_ns + 20 * MS,
        before_tsc: next.before_tsc + 999 * second,
        after_tsc: next.after_tsc + 999 * second,
    };
    assert!(map.is_lost_at(&more));
    let on = Anchor {
        before_tsc: next.before_tsc + 40 * MS,
        mono_ns: next.mono_ns + 20 * MS,
        after_tsc: next.after_tsc + 40 * MS,
    };
    assert!(!map.is_lost_at(&on));
}

#[test]
fn the_bound_adds_bracket_deviation_and_offset() {
    assert_eq!(map(&[]).bound_ns(), None);
    // 40 cycles of bracket: 10 ns; 10 cycles of offset: 5 ns.
    assert_eq!(map(&[(1000, 500)]).bound_ns(), Some(15));
    // The middle anchor is 7 ns above the line through its neighbours.
    assert_eq!(
        map(&[(1000, 500), (2000, 1007), (3000, 1500)]).bound_ns(),
        Some(22)
    );
}
