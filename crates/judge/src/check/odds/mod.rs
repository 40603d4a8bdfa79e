//! How sure a run can be of a percentile.
//!
//! Where a limit holds for p99.9, at most one value in a thousand is above it. How many of all values there will
//! ever be are above follows from how many of those that were seen are: it lies, but for a risk, within the bounds of
//! Clopper and Pearson (Biometrika 26, 1934).
//!
//! Values that follow one another are alike: a noisy second makes many long gaps, and has told of one noisy second.
//! So they count for as many as would stray as much from window to window if they were independent (the design effect:
//! Kish, Survey Sampling, 1965), and for fewer where that is known of few windows (Korn and Graubard, Survey
//! Methodology 24, 1998).
//!
//! The design effect does not cover bursts that a run did not meet ([`Bursts`]).

mod bursts;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

use vmnoise_explain::Lengths;

pub(crate) use bursts::{Bursts, ENOUGH_WINDOWS, LONGEST_NS};

/// How likely a run of twice the length that is asked for decides.
const POWER: f64 = 0.93;
/// From so many values above on, about, a binomial distribution is a normal one.
const MANY: f64 = 10_000.0;
/// At how many levels it is looked how alike high values are: what one value in so many is above, …
const LEVELS: usize = 3;
const ONE_IN: [f64; LEVELS - 1] = [10.0, 100.0];
/// … and what so many values of the run are above.
const HIGHEST: f64 = 50.0;

/// What a window of a run has seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// How many values.
    pub(crate) count: u64,
    /// Above each level, none of which is above the limit.
    high: [u64; LEVELS],
}

/// What each window has seen, of which its lengths are given and how many of them are above the limit.
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

/// What the limit of a percentile is, by what was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// No more values are above it than may be.
    Kept,
    /// More are.
    Broken,
    /// It could be either.
    Open,
    /// No more values are above it, but the run may have missed bursts of them.
    Unmet,
}

/// What a run has seen, in values that depend on no other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Odds {
    count: f64,
    above: f64,
    lost: f64,
    /// So many values of the run tell as much as one of these.
    alike: f64,
    risk: f64,
    /// `None` if windows are not of time.
    bursts: Option<Bursts>,
}

impl Odds {
    /// Of so many values, those above the limit, and those that were lost: any of them may be above. A decision
    /// may be wrong with this `risk`. `None` of fewer than two windows.
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
        // How much wider a bound is if how alike they are is known of so few windows.
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

    /// Adds the bursts that were met.
    pub(crate) fn with_bursts(self, bursts: Bursts) -> Odds {
        let bursts = Some(bursts);
        Odds { bursts, ..self }
    }

    /// Whether so many windows have values above the limit that they show how such values come.
    pub(crate) fn has_met_bursts(&self) -> bool {
        self.bursts.is_none_or(|it| it.are_met())
    }

    /// Returns how many windows have values above the limit.
    pub(crate) fn windows_met(&self) -> usize {
        self.bursts.map_or(0, |it| it.windows)
    }

    /// Whether this part of all values at most (0 to 1) is above the limit.
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

    /// How many values a run should see in all to decide: twice as many most likely do, by what this one saw.
    pub(crate) fn count_to_ask_for(&self, part: f64) -> f64 {
        // Where the true part is likely to be (by Jeffreys' prior), and so how near it comes to `part`.
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
        // With fewer nothing is certain even if none is above.
        let least = self.risk.ln() / (-part).ln_1p();
        let count = self.alike * (told[0].max(told[1]) / 2.0).max(least);
        let of_bursts = self.bursts.filter(|it| !it.are_known(self.risk));
        let times = of_bursts.map_or(0.0, |it| it.times_to_ask_for(self.risk));
        count.max(times * self.alike * self.count)
    }

    /// How many values tell one part from another, most likely (normal approximation).
    fn tells(&self, part: f64, other: f64) -> f64 {
        let spread = |it: f64| (it * (1.0 - it)).sqrt();
        let z = |it: f64| quantile(Normal::standard(), it);
        let by = (part - other).abs();
        ((z(self.risk) * spread(part) + z(1.0 - POWER) * spread(other)) / by).powi(2)
    }
}

/// Whether so few above would hardly ever be seen, if this part of all or more were above.
fn is_excluded(above: f64, below: f64, part: f64, risk: f64) -> bool {
    let count = above + below;
    match spread_of_many(count, part) {
        Some(spread) => above + 1.0 <= part * count - quantile(Normal::standard(), risk) * spread,
        None => below > 0.0 && beta_reg(above + 1.0, below, part) >= 1.0 - risk,
    }
}

/// Returns the deviation of how many are above; `None` of so few that the distribution is not the normal one. For more
/// the continued fraction of the incomplete beta function does not converge.
fn spread_of_many(count: f64, part: f64) -> Option<f64> {
    let variance = part * (1.0 - part) * count;
    (variance > MANY).then(|| variance.sqrt())
}

/// What `risk` of a distribution around 0 lies beyond.
fn quantile(of: impl ContinuousCDF<f64, f64>, risk: f64) -> f64 {
    of.inverse_cdf(1.0 - risk)
}

/// By how much more the values above a level stray from window to window than independent ones would.
fn stray(windows: &[Seen], level: usize) -> f64 {
    let sum =
        |of: fn(&Seen, usize) -> u64| windows.iter().map(|it| of(it, level)).sum::<u64>() as f64;
    let (count, high) = (sum(|it, _| it.count), sum(|it, level| it.high[level]));
    let part = high / count;
    let by_chance = high * (1.0 - part);
    // None are, or all: then there is nothing to see.
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
