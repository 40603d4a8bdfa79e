//! Simulates runs with known distributions. Counts how many decisions are wrong, and how many runs
//! decide nothing.

use super::*;

/// Highest probability of a wrong decision.
const RISK: f64 = 0.01;
const RUNS: usize = 10_000;
const WINDOWS: u64 = 40;
const SEED: u64 = 18;

/// Generator of random numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    /// Returns a number between 0 and 1, both excluded.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((it ^ (it >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::EPSILON / 4.0
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() * all.len() as f64) as usize]
    }

    /// Returns a number between `low` and `high`. Its logarithm is uniformly distributed.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.next())
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.next().ln()).sqrt() * (std::f64::consts::TAU * self.next()).cos()
    }

    /// Draws from the binomial distribution. Uses waiting times if the mean is small, and the
    /// normal distribution otherwise.
    fn binomial(&mut self, of: f64, probability: f64) -> f64 {
        let mean = of * probability;
        if mean > 100.0 {
            let drawn = mean + self.normal() * (mean * (1.0 - probability)).sqrt();
            return drawn.round().clamp(0.0, of);
        }
        let (mut at, mut many) = (0.0, 0.0);
        loop {
            at += (self.next().ln() / (-probability).ln_1p()).floor() + 1.0;
            if at > of {
                return many;
            }
            many += 1.0;
        }
    }

    /// Returns the number of values that this number of noisy moments produces. `alike` is the
    /// average number per moment.
    fn values_of(&mut self, moments: f64, alike: f64) -> f64 {
        if alike <= 1.0 {
            return moments;
        }
        // Each moment produces an exponentially distributed number, whose mean equals its standard
        // deviation.
        let rest = alike - 1.0;
        let more = match moments < 100.0 {
            true => (0..moments as u64).map(|_| -self.next().ln() * rest).sum(),
            false => moments * rest + self.normal() * moments.sqrt() * rest,
        };
        moments + more.round()
    }
}

/// Function that returns the length, in nanoseconds, of the value at a rank. The rank is the part
/// of all values (0 to 1) that are shorter.
type Distribution = fn(f64) -> f64;

/// Distributions: exponential, Pareto, uniform, and a mixture of frequent short gaps and rare long
/// gaps.
const DISTRIBUTIONS: [Distribution; 4] = [
    |rank| 2_000.0 - 3_000.0 * (-rank).ln_1p(),
    |rank| 1_000.0 * (1.0 - rank).powf(-0.7),
    |rank| 1_000.0 + 90_000.0 * rank,
    |rank| {
        if rank < 0.997 {
            1_000.0 + 2_000.0 * rank
        } else {
            1e6 + 1e7 * (rank - 0.997)
        }
    },
];

/// Simulated machine with a known part of values above the limit.
#[derive(Debug, Clone, Copy)]
struct World {
    length_of: Distribution,
    /// Average number of consecutive values that are equal.
    alike: f64,
    /// Part of all values (0 to 1) that may be above the limit.
    part: f64,
    /// Part of all values that really is above the limit.
    true_part: f64,
}

impl World {
    fn any(numbers: &mut Numbers) -> World {
        let part = numbers.one_of(&[0.1, 0.01, 0.001, 0.000_1]);
        World {
            length_of: numbers.one_of(&DISTRIBUTIONS),
            alike: numbers.one_of(&[1.0, 1.0, 5.0, 30.0]),
            part,
            // Machines exactly at the limit are included, because a wrong decision is most likely
            // there.
            true_part: part * numbers.one_of(&[0.05, 0.3, 0.7, 1.0, 1.001, 1.5, 3.0, 9.0]),
        }
    }

    /// Simulates a run by drawing each of its values.
    fn run(&self, numbers: &mut Numbers, values: u64) -> Odds {
        let limit_ns = (self.length_of)(1.0 - self.true_part);
        let mut whole = Lengths::default();
        let mut windows = Vec::new();
        let (mut left, mut length_ns) = (0.0, 0.0);
        for _ in 0..WINDOWS {
            let (mut lengths, mut above) = (Lengths::default(), 0);
            for _ in 0..values / WINDOWS {
                if left < 1.0 {
                    length_ns = (self.length_of)(numbers.next());
                    left = numbers.values_of(1.0, self.alike);
                }
                left -= 1.0;
                lengths.record(length_ns as u64);
                whole.record(length_ns as u64);
                above += u64::from(length_ns > limit_ns);
            }
            windows.push((lengths, above));
        }
        let above = windows.iter().map(|(_, above)| above).sum();
        let of_windows = windows.iter().map(|(lengths, above)| (lengths, *above));
        let seen = seen(&whole, of_windows, limit_ns as u64);
        Odds::new(whole.count(), above, 0, &seen, RISK).unwrap()
    }

    /// Simulates a run of any length by drawing only the number of values above each level. A
    /// decision uses only the ranks of values, so their lengths are not needed.
    fn long_run(&self, numbers: &mut Numbers, values: f64) -> Odds {
        let moments = values / WINDOWS as f64 / self.alike;
        // The lowest level is first. Values above a level are also above all levels before it.
        let mut levels =
            [1.0 / ONE_IN[0], 1.0 / ONE_IN[1], HIGHEST / values].map(|it| it.max(self.true_part));
        levels.sort_by(|one, other| other.total_cmp(one));
        let windows: Vec<(Seen, u64)> = (0..WINDOWS)
            .map(|_| {
                let (mut of, mut of_all) = (moments.round(), 1.0);
                let mut kept = [0.0; LEVELS + 1];
                for (kept, level) in kept
                    .iter_mut()
                    .zip(levels.into_iter().chain([self.true_part]))
                {
                    of = numbers.binomial(of, (level / of_all).min(1.0));
                    of_all = level;
                    *kept = of;
                }
                // Moments whose values lie between two levels are counted separately.
                let mut sum = 0.0;
                let mut high = [0; LEVELS];
                let mut above = 0;
                for level in (0..=LEVELS).rev() {
                    let beyond = kept.get(level + 1).copied().unwrap_or(0.0);
                    sum += numbers.values_of(kept[level] - beyond, self.alike);
                    match high.get_mut(level) {
                        Some(high) => *high = sum as u64,
                        None => above = sum as u64,
                    }
                }
                let rest = numbers.values_of(moments.round() - kept[0], self.alike);
                let count = (sum + rest) as u64;
                (Seen { count, high }, above)
            })
            .collect();
        let count = windows.iter().map(|(seen, _)| seen.count).sum();
        let above = windows.iter().map(|(_, above)| above).sum();
        let seen: Vec<Seen> = windows.into_iter().map(|(seen, _)| seen).collect();
        Odds::new(count, above, 0, &seen, RISK).unwrap()
    }
}

/// Numbers of simulated decisions.
#[derive(Debug, Default)]
struct Tally {
    kept_falsely: usize,
    broken_falsely: usize,
    open: usize,
    all: usize,
}

impl Tally {
    fn add(&mut self, world: &World, decision: Decision) {
        let is_kept = world.true_part <= world.part;
        self.all += 1;
        self.kept_falsely += usize::from(decision == Decision::Kept && !is_kept);
        self.broken_falsely += usize::from(decision == Decision::Broken && is_kept);
        self.open += usize::from(decision == Decision::Open);
    }
}

#[test]
fn one_decision_in_a_hundred_is_wrong_at_most_and_a_run_of_twice_what_is_asked_for_decides() {
    let mut numbers = Numbers(SEED);
    let [mut first, mut second, mut near, mut at_limit] = [(); 4].map(|()| Tally::default());
    for _ in 0..RUNS {
        let world = World::any(&mut numbers);
        let values = numbers.between(200.0, 20_000.0);
        let odds = world.run(&mut numbers, values as u64);
        let decision = odds.decide(world.part);
        first.add(&world, decision);
        // No finite run decides about a machine whose values are exactly at the limit.
        let is_at_limit = (world.true_part / world.part - 1.0).abs() < 0.01;
        if is_at_limit {
            near.add(&world, decision);
        }
        if decision == Decision::Open {
            let twice = 2.0 * odds.count_to_ask_for(world.part);
            let odds = world.long_run(&mut numbers, twice);
            let tally = if is_at_limit {
                &mut at_limit
            } else {
                &mut second
            };
            tally.add(&world, odds.decide(world.part));
        }
    }
    println!("{first:?}\n{second:?}\n{near:?}\n{at_limit:?}");
    for tally in [&first, &second] {
        assert!(100 * tally.kept_falsely <= tally.all, "{tally:?}");
        assert!(100 * tally.broken_falsely <= tally.all, "{tally:?}");
    }
    // The risk applies to each machine, and is largest for machines at or just above the limit. One
    // decision in a hundred may be wrong for these machines. The test allows three standard
    // deviations more.
    for tally in [&near, &at_limit] {
        let most = tally.all as f64 * RISK;
        let most = most + 3.0 * most.sqrt();
        assert!((tally.kept_falsely as f64) <= most, "{tally:?}");
        assert!((tally.broken_falsely as f64) <= most, "{tally:?}");
    }
    assert!(10 * second.open <= second.all, "{second:?}");
    // The first runs must reach enough decisions of each kind for this test.
    assert!(
        first.open > RUNS / 10 && first.open < RUNS - RUNS / 5,
        "{first:?}"
    );
}

/// Simulated machine with short values and with bursts of long values. The bursts begin at random
/// moments (a Poisson process).
struct Bursty {
    /// Number of values in a burst.
    burst: f64,
    /// Part of all values (0 to 1) that may be above the limit.
    part: f64,
    true_part: f64,
}

impl Bursty {
    /// Simulates a run with this number of cells. Each cell has as many values as a burst.
    fn run(&self, numbers: &mut Numbers, cells: u64) -> Odds {
        let per_cell = self.burst;
        let values = cells as f64 * per_cell;
        let each = self.burst / self.true_part;
        let mut above = vec![0.0; cells as usize + 1];
        let mut at = -each * numbers.next().ln();
        while at < values {
            let cell = (at / per_cell) as usize;
            let here = (((cell + 1) as f64 * per_cell - at).ceil()).min(self.burst);
            above[cell] += here;
            above[cell + 1] += self.burst - here;
            at -= each * numbers.next().ln();
        }
        above.pop();
        let (mut whole, mut windows) = (Lengths::default(), Vec::new());
        for cells in above.chunks(above.len().div_ceil(WINDOWS as usize)) {
            let mut lengths = Lengths::default();
            let high: f64 = cells.iter().sum();
            let all = cells.len() as f64 * per_cell;
            // The short values are spread evenly over 200 lengths.
            for length in 0..200 {
                let count = ((all - high) / 200.0).round().max(0.0) as u64;
                lengths.record_n(1_000 + 10 * length, count);
                whole.record_n(1_000 + 10 * length, count);
            }
            lengths.record_n(30_000, high as u64);
            whole.record_n(30_000, high as u64);
            windows.push((lengths, high as u64));
        }
        let high = windows.iter().map(|(_, above)| above).sum();
        let of_windows = windows.iter().map(|(lengths, above)| (lengths, *above));
        let seen = seen(&whole, of_windows, 20_000);
        let bursts = Bursts {
            windows: windows.iter().filter(|(_, above)| *above > 0).count(),
            cells,
            bad: above.iter().filter(|it| **it > 0.0).count() as u64,
            part: self.part,
        };
        let odds = Odds::new(whole.count(), high, 0, &seen, RISK).unwrap();
        odds.with_bursts(bursts)
    }
}

/// A machine that breaks its limit by bursts rarely passes, however short its run is.
#[test]
fn a_burst_that_was_not_met_is_not_excluded() {
    let mut numbers = Numbers(SEED);
    let (mut passed, mut unmet, mut all, mut kept) = (0, 0, 0, 0);
    for _ in 0..4_000 {
        let part = numbers.one_of(&[0.1, 0.01, 0.001]);
        let world = Bursty {
            burst: numbers.one_of(&[5.0, 67.0, 200.0]),
            part,
            true_part: part * numbers.one_of(&[1.001, 1.5, 2.0, 3.0]),
        };
        // A run contains between 0.1 and 10 bursts on average.
        let cells = numbers.between(0.1, 10.0) / world.true_part;
        let odds = world.run(&mut numbers, (cells as u64).max(40));
        let decision = odds.decide(part);
        all += 1;
        passed += usize::from(decision == Decision::Kept);
        unmet += usize::from(decision == Decision::Unmet);
        if decision == Decision::Unmet {
            let calm = Bursty {
                true_part: part / 20.0,
                ..world
            };
            let values = 2.0 * odds.count_to_ask_for(part);
            let odds = calm.run(&mut numbers, (values / calm.burst).ceil() as u64);
            kept += usize::from(odds.decide(part) == Decision::Kept);
        }
    }
    println!(
        "{passed} passed and {unmet} unmet of {all}, {kept} of the unmet kept by twice what is asked for"
    );
    // 1 % of 4,000 runs are 40, with a binomial standard deviation of sqrt(4,000 * 0.01 * 0.99) =
    // 6.3. The bound is three standard deviations above 40.
    assert!(passed <= 59, "{passed} of {all}");
    // The rule about missed bursts must be the reason why these runs do not pass.
    assert!(unmet > all / 10, "{unmet} of {all}");
    // A run of twice the recommended length has 9.2 cells for each allowed bad cell. A machine with
    // a twentieth of the allowed bad cells has none in such a run with the probability e^-0.46.
    assert!(2 * kept > unmet, "{kept} of {unmet}");
}
