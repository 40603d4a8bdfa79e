//! Statistical certainty of a percentile or a rate.
//!
//! A limit for p99.9 holds if at most one value in a thousand is above the limit. The number of
//! values above the limit in a run gives bounds for the part of all future values above the limit.
//! These are the bounds of Clopper and Pearson (Biometrika 26, 1934).
//!
//! Consecutive values depend on each other: a noisy second causes many long gaps, but is evidence
//! of only one noisy second. The design effect (Kish, Survey Sampling, 1965) corrects this. The
//! design effect is the variance of the number of high values per window, divided by the variance
//! for independent values. The number of values is divided by the design effect. With few windows,
//! the number is reduced further (Korn and Graubard, Survey Methodology 24, 1998).
//!
//! The design effect does not cover bursts that do not occur in the run ([`Bursts`]).

mod bursts;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

use vmnoise_explain::Lengths;

pub(crate) use bursts::{Bursts, ENOUGH_WINDOWS, LONGEST_NS};

/// Probability that a run of twice the recommended length decides.
const POWER: f64 = 0.93;
/// Variance above which a binomial distribution is treated as a normal one.
const MANY: f64 = 10_000.0;
/// Number of levels at which the dependence of high values is measured. One value in ten, one value
/// in a hundred, and [`HIGHEST`] values of the run exceed a level.
const LEVELS: usize = 3;
const ONE_IN: [f64; LEVELS - 1] = [10.0, 100.0];
/// Number of values of the run that are above the highest level.
const HIGHEST: f64 = 50.0;

/// Number of values in one window of a run, in total and above each level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Number of all values.
    pub(crate) count: u64,
    /// Number of values above each level. If the limit is lower than a level, the limit replaces
    /// the level.
    high: [u64; LEVELS],
}

/// Returns the counts of each window. `windows` has the lengths of each window and its number of
/// values above the limit.
pub(crate) fn seen<'a>(
    whole: &Lengths,
    windows: impl Iterator<Item = (&'a Lengths, u64)>,
    limit_ns: u64,
) -> Vec<Seen> {
    let highest = HIGHEST / whole.count().max(1) as f64;
    let parts = [1.0 / ONE_IN[0], 1.0 / ONE_IN[1], highest];
    let levels_ns = parts.map(|part| {
        let [level_ns] = whole.at_quantiles([(1.0 - part).max(0.0)]);
        level_ns
    });
    let seen = windows.map(|(lengths, above)| Seen {
        count: lengths.count(),
        high: levels_ns.map(|level_ns| match level_ns < limit_ns {
            true => lengths.above(level_ns),
            false => above,
        }),
    });
    seen.collect()
}

/// Decision on the limit of a percentile or a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// No more values are above the limit than allowed.
    Kept,
    /// More values are above the limit than allowed.
    Broken,
    /// The run does not decide.
    Open,
    /// No more values are above the limit than allowed, but the run may have missed bursts.
    Unmet,
}

/// Counts of a run, in independent values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Odds {
    count: f64,
    above: f64,
    lost: f64,
    /// Number of values of the run that are equivalent to one independent value.
    alike: f64,
    risk: f64,
    /// Bursts of values above the limit; `None` if only the number of values counts.
    bursts: Option<Bursts>,
}

impl Odds {
    /// Computes the odds of a run with `count` values, of which `above` are above the limit. Each
    /// of the `lost` values may also be above the limit. `risk` is the highest probability of a
    /// wrong decision. `None` for fewer than two windows.
    pub(crate) fn new(
        count: u64,
        above: u64,
        lost: u64,
        windows: &[Seen],
        risk: f64,
    ) -> Option<Odds> {
        let freedom = windows.len().checked_sub(2)? as f64 + 1.0;
        let alike = (0..LEVELS).map(|level| stray(windows, level));
        let alike = alike.fold(1.0, f64::max);
        // A design effect from few windows is uncertain, so the bounds are made wider.
        let of_few = quantile(StudentsT::new(0.0, 1.0, freedom).ok()?, risk);
        let of_many = quantile(Normal::standard(), risk);
        let alike = alike * (of_few / of_many).powi(2);
        Some(Odds {
            count: count as f64 / alike,
            above: above as f64 / alike,
            lost: lost as f64 / alike,
            alike,
            risk,
            bursts: None,
        })
    }

    /// Sets the bursts of the run.
    pub(crate) fn with_bursts(self, bursts: Bursts) -> Odds {
        let bursts = Some(bursts);
        Odds { bursts, ..self }
    }

    /// Returns whether enough windows have values above the limit to show how often long values
    /// occur.
    pub(crate) fn has_met_bursts(&self) -> bool {
        self.bursts.is_none_or(|it| it.are_met())
    }

    /// Returns the number of windows with values above the limit.
    pub(crate) fn windows_met(&self) -> usize {
        self.bursts.map_or(0, |it| it.windows)
    }

    /// Decides whether at most `part` (0 to 1) of all values is above the limit.
    pub(crate) fn decide(&self, part: f64) -> Decision {
        let (above, below) = (self.above + self.lost, self.count - self.above);
        if is_excluded(above, below, part, self.risk) {
            let is_met = |it: &Bursts| it.are_known(self.risk);
            return match self.bursts.as_ref().is_none_or(is_met) {
                true => Decision::Kept,
                false => Decision::Unmet,
            };
        }
        let count = above + below;
        let is_broken = match spread_of_many(count, part) {
            Some(spread) => {
                self.above - 1.0 >= part * count + quantile(Normal::standard(), self.risk) * spread
            }
            None => {
                let least = || beta_reg(self.above, count - self.above + 1.0, part);
                self.above > 0.0 && least() <= self.risk
            }
        };
        match is_broken {
            true => Decision::Broken,
            false => Decision::Open,
        }
    }

    /// Returns the recommended number of values. A similar run with twice this number most likely
    /// decides.
    pub(crate) fn count_to_ask_for(&self, part: f64) -> f64 {
        // The true part most likely differs from `part` by at least `nearest` (by Jeffreys' prior).
        let (a, b) = (self.above + 0.5, self.count - self.above + 0.5);
        let at_most = |it: f64| beta_reg(a, b, it.clamp(0.0, 1.0));
        let is_farther = |by: f64| at_most(part - by) + 1.0 - at_most(part + by) >= POWER;
        let (mut nearest, mut too_far) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = (nearest + too_far) / 2.0;
            *(if is_farther(middle) {
                &mut nearest
            } else {
                &mut too_far
            }) = middle;
        }
        let told = [part - nearest, part + nearest].map(|it| self.tells(part, it.clamp(0.0, 1.0)));
        // A run with fewer values decides nothing, even if none of them is above the limit.
        let least = self.risk.ln() / (-part).ln_1p();
        let count = self.alike * (told[0].max(told[1]) / 2.0).max(least);
        let of_bursts = self.bursts.filter(|it| !it.are_known(self.risk));
        let times = of_bursts.map_or(0.0, |it| it.times_to_ask_for(self.risk));
        count.max(times * self.alike * self.count)
    }

    /// Returns the number of values that most likely distinguishes `part` from `other` (normal
    /// approximation).
    fn tells(&self, part: f64, other: f64) -> f64 {
        let spread = |it: f64| (it * (1.0 - it)).sqrt();
        let z = |it: f64| quantile(Normal::standard(), it);
        let by = (part - other).abs();
        ((z(self.risk) * spread(part) + z(1.0 - POWER) * spread(other)) / by).powi(2)
    }
}

/// Returns whether so few values above the limit are improbable if at least `part` (0 to 1) of all
/// values is above it.
pub(crate) fn is_excluded(above: f64, below: f64, part: f64, risk: f64) -> bool {
    let count = above + below;
    match spread_of_many(count, part) {
        Some(spread) => above + 1.0 <= part * count - quantile(Normal::standard(), risk) * spread,
        None => below > 0.0 && beta_reg(above + 1.0, below, part) >= 1.0 - risk,
    }
}

/// Returns the standard deviation of the number of values above the limit. `None` if there are too
/// few values for the normal distribution. With many values, the continued fraction of the
/// incomplete beta function does not converge, so the normal distribution is used.
fn spread_of_many(count: f64, part: f64) -> Option<f64> {
    let variance = part * (1.0 - part) * count;
    (variance > MANY).then(|| variance.sqrt())
}

/// Returns the value that this distribution exceeds with the probability `risk`.
fn quantile(of: impl ContinuousCDF<f64, f64>, risk: f64) -> f64 {
    of.inverse_cdf(1.0 - risk)
}

/// Returns the design effect at a level: the variance of the window counts divided by the variance
/// for independent values.
fn stray(windows: &[Seen], level: usize) -> f64 {
    let sum =
        |of: fn(&Seen, usize) -> u64| windows.iter().map(|it| of(it, level)).sum::<u64>() as f64;
    let (count, high) = (sum(|it, _| it.count), sum(|it, level| it.high[level]));
    let part = high / count;
    let by_chance = high * (1.0 - part);
    // If no value or every value is above the level, the counts do not vary.
    if by_chance <= 0.0 || by_chance.is_nan() {
        return 1.0;
    }
    let strays = windows
        .iter()
        .map(|it| it.high[level] as f64 - part * it.count as f64);
    let squares: f64 = strays.map(|it| it * it).sum();
    let many = windows.len() as f64;
    squares * many / (many - 1.0) / by_chance
}

#[cfg(test)]
mod tests;
