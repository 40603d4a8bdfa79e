//! Exact distribution of a rank sum with ties.

/// Distribution of the rank sum of a group if the group is chosen at random. All choices of this
/// number of values are equally likely.
#[derive(Debug)]
pub(super) struct RankSums {
    /// Number of choices with each rank sum. The index is twice the sum, because ranks of tied
    /// values may be halves.
    choices: Vec<f64>,
    all: f64,
}

impl RankSums {
    /// Computes the distribution for choices of `chosen` values. `doubled_ranks` are twice the
    /// ranks of all values. Time and memory grow with the sum of the ranks.
    pub(super) fn new(doubled_ranks: &[usize], chosen: usize) -> RankSums {
        let most: usize = doubled_ranks.iter().sum();
        // Number of choices by size and doubled sum. Counts above 2^53 are rounded to 16 digits.
        let mut choices = vec![vec![0.0; most + 1]; chosen + 1];
        choices[0][0] = 1.0;
        for (before, &rank) in doubled_ranks.iter().enumerate() {
            for size in (1..=chosen.min(before + 1)).rev() {
                let (smaller, larger) = choices.split_at_mut(size);
                let with_it = larger[0][rank..].iter_mut().zip(&smaller[size - 1]);
                with_it.for_each(|(sum, without)| *sum += without);
            }
        }
        let choices = choices.swap_remove(chosen);
        RankSums {
            all: choices.iter().sum(),
            choices,
        }
    }

    /// Returns the probability of a sum that is at most this one.
    pub(super) fn at_most(&self, doubled_sum: usize) -> f64 {
        let no_larger = self.choices.iter().take(doubled_sum + 1);
        no_larger.sum::<f64>() / self.all
    }

    fn at_least(&self, doubled_sum: usize) -> f64 {
        let no_smaller = self.choices.iter().skip(doubled_sum);
        no_smaller.sum::<f64>() / self.all
    }

    /// Returns the two-sided probability of a sum that is at least as extreme as this one.
    fn two_sided(&self, doubled_sum: usize) -> f64 {
        let one_side = self.at_most(doubled_sum).min(self.at_least(doubled_sum));
        (2.0 * one_side).min(1.0)
    }
}

/// Returns the two-sided, exact p of the Mann-Whitney U test (Mann and Whitney 1947). Computes p
/// from the permutation distribution of the rank sum, with ties. The result is twice the smaller
/// tail, as in scipy's `mannwhitneyu` and `permutation_test`.
pub(super) fn mann_whitney(first: &[f64], second: &[f64]) -> f64 {
    // The sum of one group determines that of the other group. The smaller group needs fewer steps.
    let (few, many) = match first.len() <= second.len() {
        true => (first, second),
        false => (second, first),
    };
    let mut all: Vec<(f64, bool)> = few.iter().map(|it| (*it, true)).collect();
    all.extend(many.iter().map(|it| (*it, false)));
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut doubled_ranks = Vec::with_capacity(all.len());
    let mut doubled_sum = 0;
    for tied in all.chunk_by(|a, b| a.0 == b.0) {
        let before = doubled_ranks.len();
        let rank = 2 * before + tied.len() + 1;
        doubled_sum += rank * tied.iter().filter(|(_, is_few)| *is_few).count();
        doubled_ranks.extend(std::iter::repeat_n(rank, tied.len()));
    }
    RankSums::new(&doubled_ranks, few.len()).two_sided(doubled_sum)
}

/// Returns the least p that groups of these sizes can have without ties.
pub(super) fn least_p(first: usize, second: usize) -> f64 {
    let (few, all) = (first.min(second), first + second);
    let factors = (1..=few).map(|nth| nth as f64 / (all - few + nth) as f64);
    (2.0 * factors.product::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Counts pairs to compute twice the U of the numbers whose bits are set in `chosen`. `None` if
    /// the number of set bits is not `count`.
    fn doubled_u(all: &[f64], chosen: u32, count: usize) -> Option<i32> {
        let is_chosen = |at: usize| chosen >> at & 1 == 1;
        let pairs = (0..all.len()).filter(|at| is_chosen(*at)).flat_map(|a| {
            let others = (0..all.len()).filter(|at| !is_chosen(*at));
            others.map(move |b| match all[a].total_cmp(&all[b]) {
                std::cmp::Ordering::Greater => 2,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Less => 0,
            })
        });
        (chosen.count_ones() as usize == count).then(|| pairs.sum())
    }

    /// Computes p by trying every choice.
    fn naive(first: &[f64], second: &[f64]) -> f64 {
        let all = [first, second].concat();
        let found = doubled_u(&all, (1 << first.len()) - 1, first.len()).unwrap();
        let choices = (0..1u32 << all.len()).filter_map(|it| doubled_u(&all, it, first.len()));
        let choices: Vec<i32> = choices.collect();
        let part = |is_in: &dyn Fn(i32) -> bool| {
            let count = choices.iter().filter(|u| is_in(**u)).count();
            count as f64 / choices.len() as f64
        };
        let lower = part(&|u| u <= found);
        let upper = part(&|u| u >= found);
        (2.0 * lower.min(upper)).min(1.0)
    }

    fn numbers() -> impl Strategy<Value = Vec<f64>> {
        // Only nine different values exist, so ties occur.
        prop::collection::vec((0u8..9).prop_map(f64::from), 1..7)
    }

    proptest! {
        #[test]
        fn it_is_what_counting_every_choice_gives(first in numbers(), second in numbers()) {
            let found = mann_whitney(&first, &second);
            prop_assert!((found - naive(&first, &second)).abs() < 1e-12);
            prop_assert!((found - mann_whitney(&second, &first)).abs() < 1e-12);
        }
    }

    #[test]
    fn groups_that_lie_apart_have_the_least_p() {
        for (first, second) in [(1, 1), (3, 3), (2, 7), (5, 5), (50, 50)] {
            let low: Vec<f64> = (0..first).map(f64::from).collect();
            let high: Vec<f64> = (0..second).map(|it| f64::from(it) + 100.0).collect();
            let least = least_p(low.len(), high.len());
            let found = mann_whitney(&low, &high);
            assert!((found / least - 1.0).abs() < 1e-12, "{found} {least}");
        }
        assert!((least_p(3, 3) - 0.1).abs() < 1e-12);
        assert!((least_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
    }
}
