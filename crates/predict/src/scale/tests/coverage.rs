//! Tests how often the bands of short generated recordings contain the true value. The true value
//! comes from a long recording of the same simulated world.

use super::{barriers, exponential, predicted};
use crate::record::CpuRecord;
use crate::scale::{AtScale, Basis, WhyNot};

const RUNS: u64 = 100;
/// Number of runs of each world in [`HIDDEN_TAILS`].
const RUNS_OF_HIDDEN_TAILS: u64 = 40;
const RUN_NS: u64 = 10_000_000_000;
/// Duration of the long recording, in nanoseconds. It is long enough to contain the rarest gaps
/// with their true frequency.
const WORLD_NS: u64 = 100 * RUN_NS;
const STEP_NS: u64 = 1_000_000;
/// Factor that turns consecutive seeds into seeds that are far apart (splitmix64).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Numbers of ranks. A run has 10,000 steps, which support a hundred ranks.
const RANKS: [u64; 3] = [1, 16, 60];

/// Time that a timer tick takes, in nanoseconds.
const TICK_NS: u64 = 5_000;

/// A simulated world with gaps at random moments.
struct World {
    /// Function that returns the gap length that is exceeded with the given probability.
    length_ns: fn(f64) -> f64,
    pause_ns: f64,
    /// Period of additional gaps of [`TICK_NS`], in nanoseconds; `None` without such gaps.
    tick_every_ns: Option<u64>,
}

/// Returns the length that a gap of a Pareto distribution exceeds with the probability `longer`, in
/// nanoseconds. It is at least `least_ns`. It is at most 200 ms, because no gap lasts for ever.
fn pareto_ns(least_ns: f64, exponent: f64, longer: f64) -> f64 {
    (least_ns * longer.powf(-1.0 / exponent)).min(200e6)
}

const WITHOUT_VARIANCE: World = World {
    length_ns: |longer| pareto_ns(5e3, 1.3, longer),
    pause_ns: 10e6,
    tick_every_ns: None,
};

/// Worlds without variance that a fit to the longest 200 delays does not recognize.
const HIDDEN_TAILS: [World; 4] = [
    // 100 gaps without variance in a run, among 10,000 ticks. A step of 1 ms meets one tick, or
    // sometimes two.
    World {
        length_ns: |longer| pareto_ns(5e3, 1.3, longer),
        pause_ns: 100e6,
        tick_every_ns: Some(1_000_000),
    },
    // 40 gaps without variance in a run, among 2,500 ticks.
    World {
        length_ns: |longer| pareto_ns(5e3, 1.3, longer),
        pause_ns: 250e6,
        tick_every_ns: Some(4_000_000),
    },
    // One gap in 20 is longer than the others, and has no variance.
    World {
        length_ns: |longer| match longer < 0.05 {
            true => pareto_ns(40e3, 1.3, longer / 0.05),
            false => 20e3 + 20e3 * longer,
        },
        pause_ns: 10e6,
        tick_every_ns: None,
    },
    // 25 gaps in a run.
    World {
        length_ns: |longer| pareto_ns(5e3, 1.3, longer),
        pause_ns: 400e6,
        tick_every_ns: None,
    },
];

const WITH_VARIANCE: [World; 5] = [
    World {
        length_ns: |longer| pareto_ns(5e3, 2.5, longer),
        pause_ns: 10e6,
        tick_every_ns: None,
    },
    World {
        length_ns: |longer| -100e3 * longer.ln(),
        pause_ns: 10e6,
        tick_every_ns: None,
    },
    // These gaps are longer than a step of the program, so many ranks wait for them.
    World {
        length_ns: |longer| -3e6 * longer.ln(),
        pause_ns: 50e6,
        tick_every_ns: None,
    },
    // These gaps come from two distributions, one of short and one of long gaps.
    World {
        length_ns: |longer| match longer < 0.03 {
            true => 2e6 + 10e6 * longer / 0.03,
            false => 5e3 + 10e3 * longer,
        },
        pause_ns: 10e6,
        tick_every_ns: None,
    },
    // A timer of 250 Hz ticks.
    World {
        length_ns: |longer| -100e3 * longer.ln(),
        pause_ns: 10e6,
        tick_every_ns: Some(4_000_000),
    },
];

/// Returns a record of gaps that have no culprits. So the test does not spend time on predictions
/// without a culprit.
fn without_culprits(gaps: &[(u64, u64)], to_ns: u64) -> CpuRecord {
    let mut record = CpuRecord::new(0);
    for (begin_ns, length_ns) in gaps {
        record.push(*begin_ns, *length_ns, std::iter::empty());
    }
    record.measured(0, to_ns);
    record
}

impl World {
    fn recording(&self, seed: u64) -> CpuRecord {
        // Generators with consecutive seeds produce similar values.
        let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(SPREAD));
        self.gaps(RUN_NS, &mut random, fastrand::Rng::f64)
    }

    /// Returns the long recording. It has one gap length from each of many equally likely parts of
    /// the distribution, at random moments.
    fn itself(&self) -> CpuRecord {
        let mut random = fastrand::Rng::with_seed(RUNS);
        let count = (WORLD_NS as f64 / self.pause_ns) as usize;
        let parts = (0..count).map(|nth| (nth as f64 + random.f64()) / count as f64);
        let mut parts: Vec<f64> = parts.collect();
        random.shuffle(&mut parts);
        let mut parts = parts.into_iter();
        let part = move |random: &mut fastrand::Rng| parts.next().unwrap_or_else(|| random.f64());
        self.gaps(WORLD_NS, &mut random, part)
    }

    fn gaps(
        &self,
        to_ns: u64,
        random: &mut fastrand::Rng,
        mut part: impl FnMut(&mut fastrand::Rng) -> f64,
    ) -> CpuRecord {
        let mut gaps = Vec::new();
        let mut now_ns = 0.0;
        loop {
            now_ns += exponential(random, self.pause_ns);
            let length_ns = (self.length_ns)(1.0 - part(random)).round();
            if now_ns + length_ns >= to_ns as f64 {
                return without_culprits(&self.with_ticks(gaps, to_ns), to_ns);
            }
            gaps.push((now_ns as u64, length_ns as u64));
            now_ns = now_ns.floor() + length_ns + 1.0;
        }
    }

    /// Adds the ticks to these gaps. If a tick and another gap overlap, the record keeps only the
    /// rest of the later one.
    fn with_ticks(&self, mut gaps: Vec<(u64, u64)>, to_ns: u64) -> Vec<(u64, u64)> {
        if let Some(every_ns) = self.tick_every_ns {
            gaps.extend((0..to_ns / every_ns).map(|nth| (nth * every_ns, TICK_NS)));
            gaps.sort_unstable();
        }
        gaps
    }
}

/// Counts of runs by the result of their prediction, for one number of ranks.
#[derive(Debug, Default, Clone, Copy)]
struct Said {
    held: u64,
    missed: u64,
    nothing: u64,
    heavy: u64,
    /// Number of runs whose lower bound is above the true value.
    wrong_least: u64,
}

impl Said {
    fn count(&mut self, scale: &AtScale, truth_ns: f64) {
        match (scale.basis, scale.band_ns) {
            (Basis::Recorded, Some((low_ns, high_ns))) => {
                match (low_ns..=high_ns).contains(&truth_ns) {
                    true => self.held += 1,
                    false => self.missed += 1,
                }
            }
            (Basis::Recorded, None) => panic!("a band of a run that is long enough for blocks"),
            (Basis::Nothing(why_not), _) => {
                self.nothing += 1;
                self.heavy += u64::from(why_not == WhyNot::HeavyTail);
                self.wrong_least += u64::from(scale.at_least_ns.unwrap() > truth_ns);
            }
        }
    }
}

fn said(world: &World, runs: u64) -> [Said; RANKS.len()] {
    let truth = predicted(&[world.itself()], barriers(STEP_NS), &RANKS);
    let mut said = [Said::default(); RANKS.len()];
    for seed in 0..runs {
        let prediction = predicted(&[world.recording(seed)], barriers(STEP_NS), &RANKS);
        let scales = prediction.scales.iter().zip(&truth.scales);
        for (said, (scale, truth)) in said.iter_mut().zip(scales) {
            said.count(scale, truth.of_recorded_gaps_ns);
        }
    }
    said
}

/// Returns an upper bound for the number of runs with an event that has this probability. The bound
/// is three standard deviations above the mean of the binomial distribution.
fn at_most(percent: f64, runs: u64) -> u64 {
    let part = percent / 100.0;
    let mean = runs as f64 * part;
    (mean + 3.0 * (mean * (1.0 - part)).sqrt()) as u64
}

#[test]
fn bands_hold_the_truth_in_85_to_95_of_100_runs() {
    let mut all = [Said::default(); RANKS.len()];
    for (nth, world) in WITH_VARIANCE.iter().enumerate() {
        for ((said, all), ranks) in said(world, RUNS).into_iter().zip(&mut all).zip(RANKS) {
            println!("world {nth}, {ranks} ranks: {said:?}");
            assert!(
                said.missed <= at_most(15.0, RUNS),
                "{nth}, {ranks} ranks: {said:?}"
            );
            assert!(
                said.wrong_least <= at_most(5.0, RUNS),
                "{nth}, {ranks} ranks: {said:?}"
            );
            all.held += said.held;
            all.missed += said.missed;
        }
    }
    for (said, ranks) in all.iter().zip(RANKS) {
        // With 150 runs, a rate of 90 % has a standard deviation of 2.4 %, so 85 % and 95 % are two
        // deviations away. The seeds are fixed. With long gaps, a run is not sufficient for 60
        // ranks.
        let bands = said.held + said.missed;
        let held = 100.0 * said.held as f64 / bands as f64;
        assert!(
            bands >= 150 && (85.0..=95.0).contains(&held),
            "{ranks} ranks: {said:?}"
        );
    }
}

/// If gaps have no variance, their mean is unknown, even for one rank.
#[test]
fn no_prediction_is_made_where_delays_have_no_variance() {
    for (said, ranks) in said(&WITHOUT_VARIANCE, RUNS).into_iter().zip(RANKS) {
        // A fit to tails with the shape 0.77 gives less than 0.5 in one or two of 100 runs. The
        // test of the fit rejects one more.
        assert!(
            said.heavy + at_most(3.0, RUNS) >= RUNS,
            "{ranks} ranks: {said:?}"
        );
        assert!(
            said.wrong_least <= at_most(5.0, RUNS),
            "{ranks} ranks: {said:?}"
        );
    }
}

/// Ticks and other short gaps hide a tail without variance, or the gaps are few. The mean is unknown
/// here, too.
#[test]
fn no_prediction_is_made_where_a_heavy_tail_is_hidden() {
    for (nth, world) in HIDDEN_TAILS.iter().enumerate() {
        let said = said(world, RUNS_OF_HIDDEN_TAILS);
        for (said, ranks) in said.into_iter().zip(RANKS) {
            // The fit to the longest 50 delays is light in one of 60 runs. In one of 500 runs, the
            // longest four gaps are alike. So at most 3 % of the runs have a prediction: 1.2 of 40
            // runs, with a standard deviation of 1.1. The bound is four.
            let predicted = said.held + said.missed;
            assert!(
                predicted <= at_most(3.0, RUNS_OF_HIDDEN_TAILS),
                "{nth}, {ranks} ranks: {said:?}"
            );
            // The bound is six of 40 runs: the mean is two, and the standard deviation is 1.4.
            assert!(
                said.wrong_least <= at_most(5.0, RUNS_OF_HIDDEN_TAILS),
                "{nth}, {ranks} ranks: {said:?}"
            );
        }
    }
}
