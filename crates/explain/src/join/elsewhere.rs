//! Repeats the tests of a clock at every other offset within reach. If the tests agree as well at
//! another offset, nothing is proven.

use super::odds::Stakes;

/// Units of cost per decade of evidence. Costs are integers, so that their sum does not depend on
/// the order of addition.
const UNITS: f64 = 1_000.0;
/// Minimum part of the tests that must be possible at an offset, as numerator and denominator. With
/// fewer tests, the remaining ones could agree by chance.
const COMMON: (u32, u32) = (2, 3);

/// Changes of two sums at the offset `at`: of the evidence for the recorded clock, and of the
/// number of possible tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    at: i64,
    cost: i32,
    tests: i32,
}

/// Outcomes of the tests by clock offset, in cycles of the guest's counter.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    steps: Vec<Step>,
    tests: u32,
    /// Cost of assuming that the tests which failed at offset 0 failed by accident.
    strays: i64,
    /// Whether other offsets could not be tried.
    is_unknown: bool,
}

/// Comparison of the recorded clock with the best other clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rivals {
    /// Odds of the recorded clock over the best other clock, in decades.
    pub(super) ahead: f64,
    /// Offset of the best other clock, in cycles of the guest's counter.
    pub(super) offset: i64,
    /// Mean odds of all other offsets over the recorded clock, as a common logarithm.
    pub(super) mean: f64,
    /// Odds of the recorded clock over the best offset that its error bound covers, in decades.
    pub(super) within: f64,
}

impl Elsewhere {
    /// Creates the result without any tested offset: every other offset may agree as well.
    pub(super) fn unknown() -> Elsewhere {
        Elsewhere {
            is_unknown: true,
            ..Elsewhere::default()
        }
    }

    /// Adds a test that is possible at the offsets from `tested.0` to `tested.1`. The test agrees
    /// at the offsets in `inside`. These ranges are ascending, disjoint and within `tested`.
    pub(super) fn add(
        &mut self,
        stakes: Stakes,
        agrees_at_0: bool,
        tested: (i64, i64),
        inside: impl Iterator<Item = (i64, i64)>,
    ) {
        let swing = units(stakes.swing());
        let failing = if agrees_at_0 { swing } else { 0 };
        let mut turn = |at: i64, cost: i32, tests: i32| self.steps.push(Step { at, cost, tests });
        turn(tested.0, failing, 1);
        turn(tested.1.saturating_add(1), -failing, -1);
        for (from, to) in inside {
            turn(from, -swing, 0);
            turn(to.saturating_add(1), swing, 0);
        }
    }

    /// Counts a test once, after [`Self::add`] has added it for every range of offsets where it is
    /// possible.
    pub(super) fn count(&mut self, stakes: Stakes, agrees_at_0: bool) {
        self.tests += 1;
        if !agrees_at_0 {
            self.strays -= i64::from(units(stakes.decades(false)));
        }
    }

    /// Compares the recorded clock with every offset at which enough tests are possible. Offsets in
    /// `open` are no rivals, because the error bound covers them.
    pub(super) fn rivals(self, open: (i64, i64)) -> Option<Rivals> {
        if self.is_unknown {
            return Some(Rivals {
                ahead: 0.0,
                offset: 0,
                mean: 0.0,
                within: 0.0,
            });
        }
        let mut steps = self.steps;
        steps.extend([open.0, open.1.saturating_add(1)].map(|at| Step {
            at,
            cost: 0,
            tests: 0,
        }));
        // The order of the steps at one offset changes no sum.
        steps.sort_unstable_by_key(|step| step.at);
        let (mut cost, mut tests) = (0_i64, 0_u32);
        let mut rivals = Mean::default();
        let mut best: Option<(f64, i64)> = None;
        let (mut within, mut tried_within) = (0_i64, 1_u32);
        for (place, step) in steps.iter().enumerate() {
            cost += i64::from(step.cost);
            tests = tests.saturating_add_signed(step.tests);
            let until = steps.get(place + 1).map_or(step.at, |next| next.at);
            if until == step.at {
                continue;
            }
            if open.0 <= step.at && step.at <= open.1 {
                within = within.min(cost + self.strays);
                tried_within += 1;
                continue;
            }
            if tests * COMMON.1 < self.tests * COMMON.0 {
                continue;
            }
            let ahead = decades(cost);
            rivals.add((until - step.at) as f64, -ahead);
            let offset = step.at.midpoint(until);
            let nearer = |at: i64| offset.unsigned_abs() < at.unsigned_abs();
            if best.is_none_or(|(least, at)| ahead < least || ahead == least && nearer(at)) {
                best = Some((ahead, offset));
            }
        }
        let (ahead, offset) = best?;
        Some(Rivals {
            ahead,
            offset,
            mean: rivals.decades(),
            within: (decades(within) + f64::from(tried_within).log10()).min(0.0),
        })
    }
}

fn units(decades: f64) -> i32 {
    (decades * UNITS).round() as i32
}

fn decades(units: i64) -> f64 {
    units as f64 / UNITS
}

/// Weighted mean of odds, computed from decades because the odds themselves would overflow.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    most: f64,
    /// Sum of the weighted odds, relative to the odds of `most`.
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, weight: f64, decades: f64) {
        if decades > self.most {
            self.sum *= 10_f64.powf(self.most - decades);
            self.most = decades;
        }
        self.sum += weight * 10_f64.powf(decades - self.most);
        self.weight += weight;
    }

    fn decades(&self) -> f64 {
        match self.weight > 0.0 {
            true => self.most + (self.sum / self.weight).log10(),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::odds::STRAY;

    /// Returns tests that each agree at offsets within 10 of 0, and within 10 of each listed
    /// offset.
    fn tests(each: &[&[i64]]) -> Elsewhere {
        let mut elsewhere = Elsewhere::default();
        let stakes = Stakes::new(0.01, STRAY);
        for also in each {
            let mut centres = also.to_vec();
            centres.push(0);
            centres.sort_unstable();
            let inside = centres.into_iter().map(|at| (at - 10, at + 10));
            elsewhere.add(stakes, true, (-1_000, 1_000), inside);
            elsewhere.count(stakes, true);
        }
        elsewhere
    }

    fn swing() -> f64 {
        Stakes::new(0.01, STRAY).swing()
    }

    #[test]
    fn the_best_other_offset_is_the_one_by_which_most_agree() {
        let rivals = tests(&[&[400], &[400, -70], &[], &[]])
            .rivals((-10, 10))
            .unwrap();
        assert!((rivals.ahead - 2.0 * swing()).abs() < 0.01, "{rivals:?}");
        assert_eq!(rivals.offset, 400);
    }

    #[test]
    fn where_all_agree_again_nothing_is_ahead() {
        let rivals = tests(&[&[500][..]; 8]).rivals((-10, 10)).unwrap();
        assert_eq!((rivals.ahead, rivals.offset), (0.0, 500));
        assert!(rivals.mean < 0.0, "it is one of many: {rivals:?}");
    }

    #[test]
    fn what_is_open_is_no_rival() {
        let rivals = tests(&[&[22][..]; 3]).rivals((-32, 32)).unwrap();
        assert!((rivals.ahead - 3.0 * swing()).abs() < 0.01, "{rivals:?}");
        assert_eq!(rivals.within, 0.0);
    }

    #[test]
    fn failures_that_agree_at_one_offset_speak_against_the_recorded_clock() {
        let mut elsewhere = tests(&[&[22][..]; 20]);
        let stakes = Stakes::new(0.01, STRAY);
        for _ in 0..4 {
            elsewhere.add(stakes, false, (-1_000, 1_000), [(12, 14)].into_iter());
            elsewhere.count(stakes, false);
        }
        assert!(elsewhere.rivals((-32, 32)).unwrap().within < -3.0);
    }

    #[test]
    fn an_offset_that_leaves_too_few_tests_is_none() {
        let mut elsewhere = tests(&[&[][..]; 2]);
        let stakes = Stakes::new(0.01, STRAY);
        for _ in 0..2 {
            elsewhere.add(stakes, true, (-100, 100), [(-10, 10)].into_iter());
            elsewhere.count(stakes, true);
        }
        let rivals = elsewhere.rivals((-10, 10)).unwrap();
        assert!((rivals.ahead - 4.0 * swing()).abs() < 0.01, "{rivals:?}");
        assert!(rivals.offset.abs() <= 100);
    }
}
