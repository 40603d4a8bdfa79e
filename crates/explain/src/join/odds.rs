//! Odds that two recordings are of a guest and its own host, compared with chance. All odds are
//! common logarithms (decades).

use serde::Serialize;

/// Minimum odds that prove that two recordings are of the same machine.
const PROVEN: f64 = 6.0;
/// Odds below which two recordings are refused as not of the same machine.
pub(super) const REFUSED: f64 = -3.0;
/// Rate at which tests of the same machine fail because a record or a gap was lost: one in twenty.
/// The losses that the streams count are added to this rate.
pub(super) const STRAY: f64 = 0.05;
/// Rate of failed tests up to which accidents explain the failures. Above this rate, failures are
/// evidence against the pair, even if the pair agrees better than chance.
const TOLERATED: f64 = 0.1;
/// Minimum probability that one test agrees by chance. The causes of rare agreements are unknown,
/// so no test may have odds of more than 1000 to 1.
const LEAST_CHANCE: f64 = 1e-3;
/// Largest odds that are printed.
const MOST: f64 = 99.0;

/// Verdict from the odds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PairingVerdict {
    /// Not the same machine: odds below 10^-3.
    Refused,
    /// Too little evidence for either verdict.
    NotProven,
    /// The same machine: odds of at least 10^6.
    Proven,
}

impl PairingVerdict {
    pub(super) fn of(decades: f64) -> PairingVerdict {
        match decades {
            _ if decades >= PROVEN => PairingVerdict::Proven,
            _ if decades < REFUSED => PairingVerdict::Refused,
            _ => PairingVerdict::NotProven,
        }
    }
}

/// Limits odds to the printed range.
pub(super) fn printable(decades: f64) -> f64 {
    // Avoids a negative zero.
    decades.clamp(-MOST, MOST) + 0.0
}

/// Returns the decades that are missing for a proof.
pub(super) fn missing(decades: f64) -> f64 {
    (PROVEN - decades).max(0.0)
}

/// Probabilities of one test: `chance`, that two unrelated machines agree, and `stray`, that the
/// same machine fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stakes {
    chance: f64,
    stray: f64,
}

impl Stakes {
    pub(super) fn new(chance: f64, stray: f64) -> Stakes {
        let chance = chance.clamp(LEAST_CHANCE, 1.0 - LEAST_CHANCE);
        // The same machine does not fail more often than unrelated machines.
        let stray = stray.clamp(f64::MIN_POSITIVE, 1.0 - chance);
        Stakes { chance, stray }
    }

    /// Returns the evidence of an outcome for the same machine, in decades.
    pub(super) fn decades(&self, agrees: bool) -> f64 {
        let odds = match agrees {
            true => (1.0 - self.stray) / self.chance,
            false => self.stray / (1.0 - self.chance),
        };
        odds.log10()
    }

    /// Returns the evidence of agreement minus the evidence of failure, in decades.
    pub(super) fn swing(&self) -> f64 {
        self.decades(true) - self.decades(false)
    }
}

/// Returns the evidence of the failed tests alone, in decades; never above 0. Up to the tolerated
/// rate, the evidence is 0. Above, it is the likelihood at the tolerated rate over the likelihood
/// at the rate that fits best (both Poisson).
pub(super) fn misfit(failures: f64, expected: f64) -> f64 {
    let tolerated = expected * TOLERATED / STRAY;
    if failures <= tolerated {
        return 0.0;
    }
    let nats = failures * (tolerated.max(f64::MIN_POSITIVE) / failures).ln() + failures - tolerated;
    nats / std::f64::consts::LN_10
}

/// Returns the odds of a pair over its rivals, in decades. `own`, `best` and `mean` are odds over
/// chance: of the pair, of its best rival, and the mean of all rivals.
///
/// A pair that beats chance is compared with its best rival. If the rival fits as well, nothing is
/// proven, but the pair is not refused. A pair that does worse than chance is compared with the
/// mean of its rivals, because the best of many rivals fits well by accident.
pub(super) fn against(own: f64, best: f64, mean: f64) -> f64 {
    match own - best.max(0.0) {
        ahead if ahead >= 0.0 => ahead,
        _ if own > 0.0 => 0.0,
        _ => own - mean.max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_likely_agreement_says_little_and_a_failure_much() {
        let stakes = Stakes::new(0.5, STRAY);
        assert!((0.27..0.29).contains(&stakes.decades(true)));
        assert!((-1.01..-0.99).contains(&stakes.decades(false)));
        let stakes = Stakes::new(0.0, STRAY);
        assert!(
            (2.97..3.0).contains(&stakes.decades(true)),
            "no more than 1000 to 1"
        );
        let stakes = Stakes::new(1.0, STRAY);
        assert_eq!(stakes.decades(false), 0.0, "what all fail says nothing");
    }

    #[test]
    fn one_failure_in_ten_is_tolerated() {
        assert_eq!(misfit(10.0, 5.0), 0.0);
        assert_eq!(misfit(0.0, 0.0), 0.0);
        assert!(misfit(20.0, 5.0) < -1.0);
        assert!(misfit(8.0, 13.0 * STRAY) < REFUSED, "8 of 13");
    }

    #[test]
    fn odds_are_those_against_the_best_rival() {
        assert_eq!(against(20.0, -3.0, -3.0), 20.0);
        assert_eq!(against(20.0, 5.0, 0.0), 15.0);
        assert_eq!(against(20.0, 20.0, 15.0), 0.0);
        assert_eq!(against(4.0, 50.0, 45.0), 0.0, "both fit");
        assert_eq!(against(-1.0, 50.0, 45.0), -46.0);
        assert_eq!(against(-8.0, -1.0, -1.0), -8.0);
    }
}
