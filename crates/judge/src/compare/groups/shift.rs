//! Estimates how far one group of runs lies above another, with a confidence interval.

use serde::Serialize;

use super::rank_sum::RankSums;

/// Confidence interval of the true shift.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShiftInterval {
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Least probability (0 to 1) that such an interval contains the true shift.
    pub confidence: f64,
}

/// All differences between a value of the second group and a value of the first group, ascending.
#[derive(Debug)]
pub(super) struct Differences {
    ascending: Vec<f64>,
    first: usize,
    second: usize,
}

impl Differences {
    pub(super) fn new(first: &[f64], second: &[f64]) -> Differences {
        let pairs = second.iter().flat_map(|b| first.iter().map(move |a| b - a));
        let mut ascending: Vec<f64> = pairs.collect();
        ascending.sort_unstable_by(f64::total_cmp);
        Differences {
            ascending,
            first: first.len(),
            second: second.len(),
        }
    }

    /// Returns the median of the differences: the Hodges-Lehmann estimate (Hodges and Lehmann
    /// 1963). `None` without differences.
    pub(super) fn shift(&self) -> Option<f64> {
        median(&self.ascending)
    }

    /// Returns the exact interval of the shift: all shifts that the Mann-Whitney test does not
    /// reject at this level (Lehmann 1963). The method assumes that the groups differ only by a
    /// shift. Ties make the interval wider than necessary. `None` if there are too few runs.
    pub(super) fn interval(&self, level: f64) -> Option<ShiftInterval> {
        // Without ties, U is the rank sum minus the smallest possible rank sum.
        let few = self.first.min(self.second);
        let doubled: Vec<usize> = (1..=self.first + self.second)
            .map(|rank| 2 * rank)
            .collect();
        let sums = RankSums::new(&doubled, few);
        let least = few * (few + 1);
        let beyond = |outside: usize| 2.0 * sums.at_most(least + 2 * outside);
        let outside = (0..self.ascending.len()).take_while(|it| beyond(*it) <= level);
        let outside = outside.last()?;
        Some(ShiftInterval {
            low: self.ascending[outside],
            high: self.ascending[self.ascending.len() - 1 - outside],
            confidence: 1.0 - beyond(outside),
        })
    }
}

/// Returns the median of ascending numbers; `None` without numbers.
pub(super) fn median(ascending: &[f64]) -> Option<f64> {
    let upper = ascending.get(ascending.len() / 2)?;
    match ascending.len() % 2 {
        0 => Some(f64::midpoint(ascending[ascending.len() / 2 - 1], *upper)),
        _ => Some(*upper),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rank_sum::mann_whitney;
    use super::*;

    #[test]
    fn too_few_runs_have_no_interval() {
        let of = |first: &[f64], second: &[f64]| Differences::new(first, second).interval(0.05);
        assert_eq!(of(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), None);
        assert_eq!(of(&[], &[]), None);
        // 2 of 70 choices are as extreme as two separate groups of four.
        let found = of(&[1.0, 2.0, 3.0, 4.0], &[11.0, 12.0, 13.0, 14.0]).unwrap();
        assert_eq!((found.low, found.high), (7.0, 13.0));
        assert!((found.confidence - 68.0 / 70.0).abs() < 1e-12);
    }

    /// Returns numbers that are all different, and whose differences are also all different.
    fn scattered(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(0.0..100.0, count)
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_shifts_that_the_test_does_not_refuse(
            first in scattered(4..8),
            second in scattered(4..8),
        ) {
            let differences = Differences::new(&first, &second);
            let interval = differences.interval(0.05).unwrap();
            let ends = differences.ascending.windows(2);
            for between in ends.filter(|pair| pair[1] - pair[0] > 1e-9) {
                let shift = f64::midpoint(between[0], between[1]);
                let back: Vec<f64> = second.iter().map(|it| it - shift).collect();
                let is_kept = mann_whitney(&first, &back) > 0.05;
                let is_inside = interval.low <= shift && shift <= interval.high;
                prop_assert_eq!(is_kept, is_inside, "{} {:?}", shift, interval);
            }
            let shift = differences.shift().unwrap();
            prop_assert!(interval.low <= shift && shift <= interval.high);
        }
    }
}
