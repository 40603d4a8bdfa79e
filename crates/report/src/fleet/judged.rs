//! Which hosts, or ranks, lose far more than the others.
//!
//! Only those are held against one another that were looked at alike: by the same workload, and from the same length of
//! gaps on. One stands out that lies beyond Tukey's outer fence (*Exploratory Data Analysis*, 1977: three times the distance
//! of the quartiles above the upper one) and loses at least twice as much as the one in the middle. Of a thousand that are
//! alike and vary as a normal distribution does one lies there in a thousand fleets.

use std::collections::BTreeMap;

use super::lot::{Lot, Taker};

/// Quartiles of fewer say nothing.
pub(crate) const LEAST: usize = 8;
/// How much more than the one in the middle is much.
pub(crate) const TIMES: f64 = 2.0;

/// Lots, held against one another.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// How those were looked at that are held against one another; `None` where there are none.
    pub(crate) looked: Option<(&'static str, u64)>,
    /// Their places: the one that loses most first.
    pub(crate) places: Vec<usize>,
    /// What the one in the middle loses, percent.
    pub(crate) median: f64,
    /// How many of them stand out: the first ones.
    pub(crate) out: usize,
}

impl Judged {
    pub(super) fn new(lots: &[Lot]) -> Judged {
        let mut alike: BTreeMap<(&'static str, u64), Vec<(usize, f64)>> = BTreeMap::new();
        for (place, lot) in lots.iter().enumerate() {
            let mut looked = lot.looked.iter();
            if let (Some(only), None, Some(lost)) =
                (looked.next(), looked.next(), lot.noise_percent())
            {
                alike.entry(*only).or_default().push((place, lost));
            }
        }
        let Some((looked, mut lots)) = alike.into_iter().max_by_key(|(_, lots)| lots.len()) else {
            return Judged::default();
        };
        lots.sort_by(|one, other| other.1.total_cmp(&one.1));
        let falling: Vec<f64> = lots.iter().map(|(_, lost)| *lost).collect();
        let (upper, median, lower) = (
            quantile(&falling, 0.25),
            quantile(&falling, 0.5),
            quantile(&falling, 0.75),
        );
        let limit = (upper + 3.0 * (upper - lower)).max(TIMES * median);
        let out = match falling.len() {
            LEAST.. => falling.partition_point(|lost| *lost > limit),
            _ => 0,
        };
        Judged {
            looked: Some(looked),
            places: lots.into_iter().map(|(place, _)| place).collect(),
            median,
            out,
        }
    }

    /// The places of those that stand out.
    pub(crate) fn standing_out(&self) -> &[usize] {
        &self.places[..self.out]
    }

    /// Who took more of this lot's time than of that of the lot in the middle, and how much more, percent.
    pub(crate) fn excess<'l>(&self, lots: &'l [Lot], place: usize) -> Option<(&'l Taker, f64)> {
        let lot = &lots[place];
        let excesses = lot.takers.keys().map(|taker| {
            let of_each = self.places.iter();
            let mut of_each: Vec<f64> = of_each
                .map(|place| lots[*place].taken_percent(taker))
                .collect();
            of_each.sort_by(|one, other| other.total_cmp(one));
            (taker, lot.taken_percent(taker) - quantile(&of_each, 0.5))
        });
        let most = excesses.max_by(|one, other| one.1.total_cmp(&other.1));
        most.filter(|(_, more)| *more > 0.0)
    }
}

/// What lies at this part of the way through falling numbers, between two of them in proportion; 0 of none.
fn quantile(falling: &[f64], part: f64) -> f64 {
    let Some(last) = falling.len().checked_sub(1) else {
        return 0.0;
    };
    let at = part * last as f64;
    let before = falling[at as usize];
    let after = falling[(at as usize + 1).min(last)];
    before + (after - before) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::lot::Sums;

    /// Hosts that lose so many thousandths of a percent.
    fn lots(lost: &[u64], looked: (&'static str, u64)) -> Vec<Lot> {
        let lots = lost.iter().map(|lost| Lot {
            looked: [looked].into(),
            all: Sums {
                runtime_ns: 100_000,
                noise_ns: *lost,
                ..Sums::default()
            },
            ..Lot::default()
        });
        lots.collect()
    }

    const OSNOISE: (&str, u64) = ("osnoise", 1_000);

    #[test]
    fn quantiles_are_those_of_the_usual_definition() {
        // As numpy.quantile([1, 2, 3, 4, 10], …) has them, from the other end.
        let falling = [10.0, 4.0, 3.0, 2.0, 1.0];
        assert_eq!(quantile(&falling, 0.25), 4.0);
        assert_eq!(quantile(&falling, 0.5), 3.0);
        assert_eq!(quantile(&falling, 0.1), 7.6);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn who_is_far_beyond_the_others_stands_out_and_nobody_else() {
        let usual: Vec<u64> = (0..40).map(|nth| 200 + nth % 13).collect();
        assert_eq!(Judged::new(&lots(&usual, OSNOISE)).standing_out(), [0; 0]);
        let mut with_worst = usual.clone();
        with_worst[17] = 900;
        let judged = Judged::new(&lots(&with_worst, OSNOISE));
        assert_eq!(judged.standing_out(), [17]);
        // Beyond the fence, but not twice as much.
        with_worst[17] = 350;
        assert_eq!(Judged::new(&lots(&with_worst, OSNOISE)).out, 0);
        // Of so few nobody is told apart.
        let few = Judged::new(&lots(&[200, 200, 900], OSNOISE));
        assert_eq!((few.out, few.places), (0, vec![2, 0, 1]));
    }

    #[test]
    fn hosts_that_were_looked_at_otherwise_are_not_held_against_the_others() {
        let mut all = lots(&[200; 20], OSNOISE);
        all.extend(lots(&[9_000; 3], ("osnoise", 100)));
        let judged = Judged::new(&all);
        assert_eq!((judged.looked, judged.out), (Some(OSNOISE), 0));
        assert_eq!(judged.places.len(), 20);
    }
}
