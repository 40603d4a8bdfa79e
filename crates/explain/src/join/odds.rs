//! How much likelier an outcome is of a guest and its own host than by chance. All odds are
//! common logarithms: decades.

use serde::Serialize;

/// From these odds on two recordings are of the same machine.
const PROVEN: f64 = 6.0;
/// Below these they are not.
pub(super) const REFUSED: f64 = -3.0;
/// How often the same machine fails a test all the same: a record was lost, a gap found no room.
/// One in twenty, before what the streams themselves count as lost.
pub(super) const STRAY: f64 = 0.05;
/// More than that is no accident any more, however little chance would explain.
const TOLERATED: f64 = 0.1;
/// No test counts for more than a thousand to one: nobody knows the rest of the world so well.
const LEAST_CHANCE: f64 = 1e-3;
/// Nobody prints more.
const MOST: f64 = 99.0;

/// What the odds come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They are not the same: odds below 10^-3.
    Refused,
    /// Too little to tell.
    NotProven,
    /// They are the same: odds of 10^6 and more.
    Proven,
}

impl Verdict {
    pub(super) fn of(decades: f64) -> Verdict {
        match decades {
            _ if decades >= PROVEN => Verdict::Proven,
            _ if decades < REFUSED => Verdict::Refused,
            _ => Verdict::NotProven,
        }
    }
}

/// As much as is worth printing.
pub(super) fn printable(decades: f64) -> f64 {
    // Without the sign of a negative nothing.
    decades.clamp(-MOST, MOST) + 0.0
}

/// How many decades are missing to a proof.
pub(super) fn missing(decades: f64) -> f64 {
    (PROVEN - decades).max(0.0)
}

/// How likely a test agrees of two that have nothing to do with each other, and how likely it
/// fails of the same machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stakes {
    chance: f64,
    stray: f64,
}

impl Stakes {
    pub(super) fn new(chance: f64, stray: f64) -> Stakes {
        let chance = chance.clamp(LEAST_CHANCE, 1.0 - LEAST_CHANCE);
        // The same machine does not fail more often than any other.
        let stray = stray.clamp(f64::MIN_POSITIVE, 1.0 - chance);
        Stakes { chance, stray }
    }

    /// What an outcome says for the same machine.
    pub(super) fn decades(&self, agrees: bool) -> f64 {
        let odds = match agrees {
            true => (1.0 - self.stray) / self.chance,
            false => self.stray / (1.0 - self.chance),
        };
        odds.log10()
    }

    /// What lies between the two outcomes.
    pub(super) fn swing(&self) -> f64 {
        self.decades(true) - self.decades(false)
    }
}

/// What failures say where so many were to be expected of the same machine, if they are more
/// than is tolerated: how likely that is, over how likely it is at whatever rate explains it
/// best (both Poisson). Never above 0.
pub(super) fn misfit(failures: f64, expected: f64) -> f64 {
    let tolerated = expected * TOLERATED / STRAY;
    if failures <= tolerated {
        return 0.0;
    }
    let nats = failures * (tolerated.max(f64::MIN_POSITIVE) / failures).ln() + failures - tolerated;
    nats / std::f64::consts::LN_10
}

/// Odds over rivals, each of which has odds over chance of its own. A pair that beats chance is
/// held against the best of its rivals: where that fits as well, nothing is proven, and the pair is
/// not refused. One that does worse than chance is held against their mean, for the best of many
/// always looks good.
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
