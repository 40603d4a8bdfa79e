//! Finds the hosts, or ranks, that lose far more than the others.
//!
//! A lot is a host or a rank. Lots are compared only if they had the same workload and threshold. A
//! lot stands out if it meets all of these conditions:
//!
//! - It lies beyond Tukey's outer fence (*Exploratory Data Analysis*, 1977): the upper quartile
//!   plus three times the distance of the quartiles.
//! - It loses at least twice as much as the median.
//! - It loses at least a thousandth of its time. If most lots lose almost nothing, a single gap is
//!   beyond any fence.
//!
//! If losses are normally distributed and a fleet has 1000 similar lots, one of them stands out by
//! chance in about one of 1000 fleets.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::lot::{Lot, Taker};

/// Smallest group that is judged: quartiles of fewer say nothing.
pub(crate) const LEAST: usize = 8;
/// Multiple of the median that an outlier must reach.
pub(crate) const TIMES: f64 = 2.0;
/// Least percentage of its time that an outlier must have lost.
pub(crate) const LEAST_LOST: f64 = 0.1;

/// Lots, each compared with similar ones. Numbers are indices into all lots.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Groups of similar lots; the largest group first.
    pub(crate) groups: Vec<Group>,
    /// All lots that are in a group: the largest loss first.
    pub(crate) places: Vec<usize>,
    /// All lots that stand out in their group: the largest loss first.
    pub(crate) out: Vec<usize>,
}

/// Lots with the same workload and threshold.
#[derive(Debug)]
pub(crate) struct Group {
    /// Indices of the lots in the group: the largest loss first.
    pub(crate) places: Vec<usize>,
    /// Median loss, in percent.
    pub(crate) median: f64,
    /// Number of lots that stand out, which come first.
    out: usize,
}

impl Judged {
    pub(super) fn new(lots: &[Lot]) -> Judged {
        let mut alike: BTreeMap<(&'static str, u64), Vec<(usize, f64)>> = BTreeMap::new();
        let mut all: Vec<(usize, f64)> = Vec::new();
        for (place, lot) in lots.iter().enumerate() {
            let mut looked = lot.looked.iter();
            if let (Some(only), None, Some(lost)) =
                (looked.next(), looked.next(), lot.noise_percent())
            {
                alike.entry(*only).or_default().push((place, lost));
                all.push((place, lost));
            }
        }
        let mut groups: Vec<Group> = alike.into_values().map(Group::new).collect();
        groups.sort_by_key(|group| Reverse(group.places.len()));
        sort_falling(&mut all);
        let places: Vec<usize> = all.into_iter().map(|(place, _)| place).collect();
        let stands_out = |place: &usize| groups.iter().any(|it| it.standing_out().contains(place));
        Judged {
            out: places.iter().copied().filter(stands_out).collect(),
            places,
            groups,
        }
    }

    /// Returns the groups that are large enough to be judged.
    pub(crate) fn large(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|it| it.is_large())
    }

    /// Returns the group of this lot.
    pub(crate) fn group_of(&self, place: usize) -> Option<&Group> {
        self.groups.iter().find(|it| it.places.contains(&place))
    }

    /// Returns the cause with the largest excess over the group's median, and this excess in
    /// percent.
    pub(crate) fn excess<'l>(&self, lots: &'l [Lot], place: usize) -> Option<(&'l Taker, f64)> {
        let lot = &lots[place];
        let group = self.group_of(place)?;
        let excesses = lot.takers.keys().map(|taker| {
            let of_each = group.places.iter();
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

impl Group {
    fn new(mut lots: Vec<(usize, f64)>) -> Group {
        sort_falling(&mut lots);
        let falling: Vec<f64> = lots.iter().map(|(_, lost)| *lost).collect();
        let (upper, median, lower) = (
            quantile(&falling, 0.25),
            quantile(&falling, 0.5),
            quantile(&falling, 0.75),
        );
        let limit = (upper + 3.0 * (upper - lower)).max(TIMES * median);
        let out = match falling.len() {
            LEAST.. => falling.partition_point(|lost| *lost > limit && *lost >= LEAST_LOST),
            _ => 0,
        };
        Group {
            places: lots.into_iter().map(|(place, _)| place).collect(),
            median,
            out,
        }
    }

    /// Returns true if the group is large enough to be judged.
    pub(crate) fn is_large(&self) -> bool {
        self.places.len() >= LEAST
    }

    fn standing_out(&self) -> &[usize] {
        &self.places[..self.out]
    }
}

fn sort_falling(lots: &mut [(usize, f64)]) {
    lots.sort_by(|one, other| other.1.total_cmp(&one.1));
}

/// Returns a quantile of falling numbers, interpolated linearly; 0 if there are none.
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

    /// Returns hosts that lose these thousandths of a percent.
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
        // Same as numpy.quantile([1, 2, 3, 4, 10], …), from the other end.
        let falling = [10.0, 4.0, 3.0, 2.0, 1.0];
        assert_eq!(quantile(&falling, 0.25), 4.0);
        assert_eq!(quantile(&falling, 0.5), 3.0);
        assert_eq!(quantile(&falling, 0.1), 7.6);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn who_is_far_beyond_the_others_stands_out_and_nobody_else() {
        let usual: Vec<u64> = (0..40).map(|nth| 200 + nth % 13).collect();
        assert_eq!(Judged::new(&lots(&usual, OSNOISE)).out, [0; 0]);
        let mut with_worst = usual.clone();
        with_worst[17] = 900;
        let judged = Judged::new(&lots(&with_worst, OSNOISE));
        assert_eq!(judged.out, [17]);
        // Beyond the fence, but not twice as much.
        with_worst[17] = 350;
        assert_eq!(Judged::new(&lots(&with_worst, OSNOISE)).out, [0; 0]);
        // Too few to judge.
        let few = Judged::new(&lots(&[200, 200, 900], OSNOISE));
        assert_eq!((few.out, few.places), (vec![], vec![2, 0, 1]));
    }

    #[test]
    fn hosts_that_were_looked_at_otherwise_are_held_against_their_like() {
        // Three of them are too few.
        let mut all = lots(&[200; 20], OSNOISE);
        all.extend(lots(&[9_000, 200, 200], ("osnoise", 100)));
        let judged = Judged::new(&all);
        assert_eq!((judged.out.len(), judged.large().count()), (0, 1));
        assert_eq!(judged.large().next().unwrap().places.len(), 20);
        // Two groups of nine, each with one that stands out; the finer threshold loses more.
        let fine = [300, 300, 300, 2_000, 300, 300, 300, 300, 300];
        let coarse = [150, 150, 150, 150, 150, 150, 150, 150, 290 + 150];
        let mut all = lots(&coarse, ("osnoise", 100_000));
        all.extend(lots(&fine, OSNOISE));
        let judged = Judged::new(&all);
        assert_eq!(judged.out, [9 + 3, 8]);
        assert_eq!(judged.group_of(8).unwrap().median, 0.15);
        assert_eq!(judged.group_of(12).unwrap().median, 0.3);
    }

    #[test]
    fn who_loses_next_to_nothing_does_not_stand_out() {
        // All but one lose nothing: first that one loses a single gap, then a thousandth of its
        // time.
        let mut lost = [0; 9];
        lost[3] = 99;
        assert_eq!(Judged::new(&lots(&lost, OSNOISE)).out, [0; 0]);
        lost[3] = 100;
        assert_eq!(Judged::new(&lots(&lost, OSNOISE)).out, [3]);
    }
}
