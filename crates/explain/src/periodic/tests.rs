//! Tests that periodic gaps are found, and that random gaps are not.

use super::*;

const MS: f64 = 1e6;

/// Random number generator SplitMix64 (Steele, Lea, Flood 2014), which is small and equal on every
/// platform.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uniform number in 0..1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

struct Train {
    period_ns: f64,
    jitter_ns: f64,
    keep: f64,
}

/// Returns gaps of 3 µs that keep the period of `train` over `span_ns`, and `extra` random gaps of
/// 2 µs.
fn gaps(random: &mut Random, span_ns: f64, train: Option<Train>, extra: usize) -> Vec<(u64, u64)> {
    let at = |ns: f64| 1_000_000_000_000 + ns as u64;
    let mut gaps: Vec<(u64, u64)> = (0..extra)
        .map(|_| (at(random.unit() * span_ns), 2000))
        .collect();
    if let Some(Train {
        period_ns,
        jitter_ns,
        keep,
    }) = train
    {
        for n in 1..(span_ns / period_ns) as u64 {
            if random.unit() <= keep {
                let stray_ns = jitter_ns * random.normal();
                gaps.push((at(n as f64 * period_ns + stray_ns), 3000));
            }
        }
    }
    gaps.sort_unstable();
    gaps
}

fn first(gaps: &[(u64, u64)]) -> Option<Period> {
    find_all(gaps).into_iter().next()
}

fn assert_found(found: Option<Period>, period_ns: f64, relative: f64) -> Period {
    let found = found.unwrap_or_else(|| panic!("no period of {period_ns} ns found"));
    let off = (found.period_ns / period_ns - 1.0).abs();
    assert!(off < relative, "{} ns for {period_ns} ns", found.period_ns);
    found
}

#[test]
fn finds_the_beat_of_a_tick_among_missing_and_extra_ones() {
    for seed in 0..20 {
        let random = &mut Random(seed);
        let train = Train {
            period_ns: MS,
            jitter_ns: 8e3,
            keep: 0.5,
        };
        let gaps = gaps(random, 10_000.0 * MS, Some(train), 5000);
        let period = assert_found(first(&gaps), MS, 1e-6);
        assert!((4900..5700).contains(&period.gaps), "{period:?}");
        assert!((6e3..11e3).contains(&period.jitter_ns), "{period:?}");
    }
}

#[test]
fn folded_at_the_beat_gaps_stand_in_the_middle_and_the_others_everywhere() {
    let mut random = Random(11);
    let train = Train {
        period_ns: 4.0 * MS,
        jitter_ns: 5e3,
        keep: 1.0,
    };
    let (train, extra) = (gaps(&mut random, 4e9, Some(train), 0), 2_020);
    let others = gaps(&mut random, 4e9, None, extra);
    let all = [&*train, &*others].concat();
    let fold = first(&all).unwrap().fold;
    let count = |cells: &[FoldCell]| cells.iter().map(|cell| cell.gaps).sum::<u64>();
    assert_eq!(fold.len(), CELLS);
    assert_eq!(count(&fold), all.len() as u64, "none is lost");
    let lost_ns: u64 = fold.iter().map(|cell| cell.total_ns).sum();
    assert_eq!(lost_ns, all.iter().map(|gap| gap.1).sum::<u64>());
    let middle = CELLS / 2;
    assert!(fold[middle].gaps >= train.len() as u64, "{fold:?}");
    let most = fold[..middle].iter().chain(&fold[middle + 1..]);
    assert!(most.map(|cell| cell.gaps).max() < Some(60), "{fold:?}");
}

#[test]
fn finds_an_odd_rate_to_the_nanosecond() {
    let period_ns = 1e9 / 737.0;
    for (seed, jitter_ns) in [(1, 5e3), (2, 10e3), (3, 500.0), (4, 0.0)] {
        let random = &mut Random(seed);
        let train = Train {
            period_ns,
            jitter_ns,
            keep: 1.0,
        };
        let period = assert_found(
            first(&gaps(random, 10e9, Some(train), 3000)),
            period_ns,
            1e-6,
        );
        assert!(period.jitter_ns <= 1.5 * jitter_ns + 200.0, "{period:?}");
    }
}

#[test]
fn finds_the_fundamental_from_20_us_to_a_second() {
    let at = [
        (21e3, 300.0, 2e9),
        (50e3, 1e3, 5e9),
        (4.0 * MS, 2e3, 20e9),
        (100.0 * MS, 1e5, 30e9),
    ];
    for (period_ns, jitter_ns, span_ns) in at.into_iter().chain([(950.0 * MS, 1e5, 300e9)]) {
        for keep in [1.0, 0.6] {
            let random = &mut Random(period_ns as u64);
            let train = Train {
                period_ns,
                jitter_ns,
                keep,
            };
            let mut gaps = gaps(random, span_ns, Some(train), 20);
            gaps.truncate(50_000);
            assert_found(first(&gaps), period_ns, 1e-4);
        }
    }
}

#[test]
fn an_echo_after_each_beat_is_not_the_period() {
    let random = &mut Random(5);
    let train = Train {
        period_ns: MS,
        jitter_ns: 1e3,
        keep: 0.9,
    };
    let mut gaps = gaps(random, 5000.0 * MS, Some(train), 500);
    for n in 0..gaps.len() {
        gaps.push((gaps[n].0 + 30_000 + random.next() % 500, 1500));
    }
    assert_found(first(&gaps), MS, 1e-6);
}

#[test]
fn few_gaps_have_no_beat() {
    for count in 0..20 {
        let even: Vec<(u64, u64)> = (0..count).map(|n| (n * 1_000_000, 3000)).collect();
        assert_eq!(find_all(&even), [], "{count}");
    }
}

#[test]
fn identical_begins_are_survived() {
    assert_eq!(find_all(&[(u64::MAX, 1); 100]), []);
    assert_eq!(find_all(&[[(0, 1); 50], [(u64::MAX, 1); 50]].concat()), []);
}

#[test]
fn random_gaps_have_no_beat() {
    for seed in 0..3000 {
        let random = &mut Random(seed ^ 0xabc0_0000);
        let count = 40 + random.next() % 500;
        let span_ns = 1e8 * 100f64.powf(random.unit());
        let gaps = gaps(random, span_ns, None, count as usize);
        assert_eq!(find_all(&gaps), [], "seed {seed}");
    }
}

/// Returns random bursts of gaps. Inside a burst, gaps follow each other evenly if `even` is true,
/// and otherwise at random.
fn bursts(random: &mut Random, even: bool) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut burst_ns = 0.0;
    for _ in 0..20 + random.next() % 60 {
        burst_ns += random.exponential(50.0 * MS);
        let mut at_ns = burst_ns;
        for _ in 0..2 + random.next() % 25 {
            gaps.push((at_ns as u64, 2000));
            at_ns += if even {
                0.1 * MS
            } else {
                random.exponential(0.1 * MS)
            };
        }
    }
    gaps
}

#[test]
fn bursts_have_no_beat() {
    for seed in 0..100 {
        for even in [false, true] {
            let gaps = bursts(&mut Random(seed), even);
            assert_eq!(find_all(&gaps), [], "seed {seed} {even}");
        }
    }
}

/// A clock that counts each period from its own last event loses its phase. By the definition of
/// this module, such a clock has no period, so the search must not find one.
#[test]
fn a_clock_without_memory_has_no_beat() {
    for seed in 0..200 {
        let random = &mut Random(seed);
        let mut at_ns = 0.0;
        let gaps: Vec<(u64, u64)> = (0..1000)
            .map(|_| {
                at_ns += MS * (1.0 + 0.2 * random.normal());
                (at_ns.max(0.0) as u64, 2000)
            })
            .collect();
        assert_eq!(find_all(&gaps), [], "seed {seed}");
    }
}

#[test]
fn damaged_times_are_survived() {
    for seed in 0..200 {
        let random = &mut Random(seed);
        let gaps: Vec<(u64, u64)> = (0..100)
            .map(|_| (random.next() >> (random.next() % 64), random.next() >> 8))
            .collect();
        assert_eq!(find_all(&gaps), [], "seed {seed}");
    }
}

#[test]
fn finds_long_beats_under_many_short_gaps_and_a_second_beat() {
    for seed in 0..10 {
        let random = &mut Random(seed);
        let span_ns = 8_000.0 * MS;
        let slow = Train {
            period_ns: 10.0 * MS,
            jitter_ns: 2e3,
            keep: 0.8,
        };
        let fast = Train {
            period_ns: 1e9 / 737.0,
            jitter_ns: 5e3,
            keep: 0.9,
        };
        let mut all: Vec<(u64, u64)> = gaps(random, span_ns, Some(slow), 0)
            .into_iter()
            .map(|(start_ns, _)| (start_ns, 40_000))
            .collect();
        all.extend(gaps(random, span_ns, Some(fast), 6_000));
        let found = find_all(&all);
        assert_found(found.first().cloned(), 10.0 * MS, 1e-5);
        assert_found(found.get(1).cloned(), 1e9 / 737.0, 1e-5);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
