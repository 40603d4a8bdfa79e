//! The rank test and two effect sizes.

use super::alike::{alike, autocorrelation, common};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Rank comparison of two samples of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ranks {
    /// Number of standard deviations between the Mann-Whitney U and its mean, if all numbers are
    /// independent. This is the normal approximation with corrections for ties and for continuity
    /// (Mann and Whitney 1947).
    score: f64,
    /// Number of numbers in both samples.
    count: f64,
    /// Autocorrelation of consecutive numbers.
    autocorrelation: f64,
    /// Cliff's delta, -1 to 1: the probability that a number of the second sample is larger than
    /// one of the first, minus the probability that it is smaller (Cliff 1993).
    pub(super) delta: f64,
    /// Hodges-Lehmann estimate of how far the second sample lies above the first sample: the median
    /// of all differences (Hodges and Lehmann 1963).
    pub(super) shift: f64,
}

/// Least size of a sample. Smaller samples prove nothing.
const FEWEST: usize = 8;

/// Compares two samples, each in the order of time. `None` if a sample is too small.
pub(super) fn ranks(first: &[f64], second: &[f64]) -> Option<Ranks> {
    if first.len().min(second.len()) < FEWEST {
        return None;
    }
    let pairs = second.iter().flat_map(|b| first.iter().map(move |a| b - a));
    let mut differences: Vec<f64> = pairs.collect();
    let above = differences.iter().filter(|it| **it > 0.0).count() as f64;
    let below = differences.iter().filter(|it| **it < 0.0).count() as f64;
    let all = differences.len() as f64;
    let u = above + (all - above - below) / 2.0;
    let delta = (above - below) / all;
    differences.sort_unstable_by(f64::total_cmp);
    let middle = differences.len() / 2;
    let shift = match differences.len() % 2 {
        0 => f64::midpoint(differences[middle - 1], differences[middle]),
        _ => differences[middle],
    };
    Some(Ranks {
        score: score(u, first, second),
        count: (first.len() + second.len()) as f64,
        autocorrelation: autocorrelation(first, second),
        delta,
        shift,
    })
}

/// Returns the two-sided p of each of these figures, which come from the same windows. p is the
/// probability of ranks that are at least as uneven, if both samples have one distribution. If
/// consecutive numbers depend on each other, their number is reduced.
pub(super) fn p_of_all(figures: &[Ranks]) -> Vec<f64> {
    let common = common(figures.iter().map(|it| it.autocorrelation).collect());
    figures.iter().map(|it| it.p(common)).collect()
}

impl Ranks {
    /// Returns the two-sided p. The autocorrelation is at least `common`.
    fn p(&self, common: f64) -> f64 {
        let alike = alike(self.autocorrelation.max(common));
        // The autocorrelation is an estimate from this number of independent numbers.
        let independent = self.count / alike;
        let by_chance = StudentsT::new(0.0, 1.0, (independent - 2.0).max(1.0));
        by_chance.map_or(1.0, |it| 2.0 * it.sf(self.score / alike.sqrt()))
    }
}

/// Returns the number of standard deviations between U and its mean, if all numbers are
/// independent.
fn score(u: f64, first: &[f64], second: &[f64]) -> f64 {
    let (n, m) = (first.len() as f64, second.len() as f64);
    let mut all = [first, second].concat();
    all.sort_unstable_by(f64::total_cmp);
    let ties: f64 = all
        .chunk_by(|a, b| a == b)
        .map(|tied| (tied.len() as f64).powi(3) - tied.len() as f64)
        .sum();
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 0.0; // All the same.
    }
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    distance / variance.sqrt()
}

/// Replaces each p by its value after Holm's correction for several tests (Holm 1979).
pub(super) fn holm(p: &mut [f64]) {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_unstable_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut largest: f64 = 0.0;
    for (rank, at) in order.iter().enumerate() {
        largest = largest.max((p[*at] * (p.len() - rank) as f64).min(1.0));
        p[*at] = largest;
    }
}

#[cfg(test)]
mod tests {
    use statrs::distribution::Normal;

    use super::*;

    /// The expected score comes from scipy 1.17: `mannwhitneyu(second, first,
    /// method="asymptotic")`.
    #[test]
    fn the_score_is_that_of_scipy() {
        let first = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let second = [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 12.0];
        let found = ranks(&first, &second).unwrap();
        assert!((found.delta - 0.6).abs() < 1e-12, "{found:?}");
        assert!((found.shift - 3.0).abs() < 1e-12, "{found:?}");
        let u = (found.delta + 1.0) / 2.0 * 90.0;
        let p = 2.0 * Normal::standard().sf(score(u, &first, &second));
        assert!((p - 0.029_977_338_158_499_352).abs() < 1e-6, "{p}");
    }

    /// The same numbers are weaker evidence if each number is close to the number before it.
    #[test]
    fn numbers_that_follow_from_one_another_count_for_less() {
        let mixed = [3.0, 9.0, 1.0, 7.0, 5.0, 2.0, 8.0, 4.0, 6.0, 10.0];
        let mut ascending = mixed;
        ascending.sort_unstable_by(f64::total_cmp);
        let higher = |of: [f64; 10]| of.map(|it| it + 5.5);
        let of_mixed = ranks(&mixed, &higher(mixed)).unwrap();
        let of_ascending = ranks(&ascending, &higher(ascending)).unwrap();
        assert_eq!(of_mixed.delta, of_ascending.delta);
        let p = [of_mixed, of_ascending].map(|it| it.p(0.0));
        assert!(p[0] < 0.01 && p[1] > 0.1, "{p:?}");
        // The autocorrelation of other figures of the same windows is used, too.
        assert!(of_mixed.p(0.9) > 0.1);
    }

    #[test]
    fn the_same_numbers_are_no_difference() {
        let found = ranks(&[3.0; 20], &[3.0; 20]).unwrap();
        assert_eq!((found.p(0.0), found.delta, found.shift), (1.0, 0.0, 0.0));
        assert_eq!(ranks(&[3.0; 7], &[4.0; 20]), None);
    }

    #[test]
    fn several_tests_at_once_are_held_to_more() {
        let mut p = [0.01, 0.04, 0.03, 0.005];
        holm(&mut p);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (found, expected) in p.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{p:?}");
        }
    }
}
