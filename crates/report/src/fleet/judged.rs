//! Finds hosts or ranks that lose far more time than similar ones.
//!
//! A lot is a host or a rank. Lots are compared only if they had the same workload and threshold. A
//! lot stands out if all of these conditions hold:
//!
//! - Its loss is above Tukey's outer fence (*Exploratory Data Analysis*, 1977): the upper quartile
//!   plus three times the distance between the quartiles.
//! - It loses at least twice as much as the median.
//! - It loses at least 0.1 % of its time. Without this condition, a single gap could be above the
//!   fence if most lots lose almost nothing.
//!
//! Example: a fleet has 1000 similar lots whose losses are normally distributed. In about one of
//! 1000 such fleets, a lot stands out by chance.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::lot::{Lot, Taker};

/// Smallest group that is judged. Quartiles of fewer hosts or ranks mean nothing.
pub(crate) const LEAST: usize = 8;
/// Multiple of the group's median loss that an outlier must reach.
pub(crate) const TIMES: f64 = 2.0;
/// Least loss of an outlier, in percent of its time.
pub(crate) const LEAST_LOST: f64 = 0.1;

/// Hosts or ranks, each compared with similar ones. The fields contain indices into all hosts or
/// ranks.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Groups of similar hosts or ranks, the largest group first.
    pub(crate) groups: Vec<Group>,
    /// Hosts or ranks that are in a group, the largest loss first.
    pub(crate) places: Vec<usize>,
    /// Hosts or ranks that stand out in their group, the largest loss first.
    pub(crate) out: Vec<usize>,
}

/// Hosts or ranks with the same workload and threshold.
#[derive(Debug)]
pub(crate) struct Group {
    /// Indices of the group's hosts or ranks, the largest loss first.
    pub(crate) places: Vec<usize>,
    /// Median loss, in percent of the time.
    pub(crate) median: f64,
    /// Number of hosts or ranks that stand out. They are the first ones in `places`.
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

    /// Returns the group of the host or rank with this index; `None` if no group contains this host
    /// or rank.
    pub(crate) fn group_of(&self, place: usize) -> Option<&Group> {
        self.groups.iter().find(|it| it.places.contains(&place))
    }

    /// Finds the culprit whose time is farthest above the group's median. Returns the culprit, and
    /// the excess in percent of the time.
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

    /// Returns whether the group is large enough to be judged.
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

/// Returns a quantile of descending numbers, interpolated linearly; 0 without numbers. The part
/// `part` of all numbers, 0 to 1, is larger than the result.
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

    /// Returns one host for each number in `lost`, which is its loss in thousandths of a percent.
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
        // The numbers descend, so 0.25 gives the result of `numpy.quantile([1, 2, 3, 4, 10],
        // 0.75)`.
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
        // This loss is above the fence, but not twice the median.
        with_worst[17] = 350;
        assert_eq!(Judged::new(&lots(&with_worst, OSNOISE)).out, [0; 0]);
        // Three hosts are too few to be judged.
        let few = Judged::new(&lots(&[200, 200, 900], OSNOISE));
        assert_eq!((few.out, few.places), (vec![], vec![2, 0, 1]));
    }

    #[test]
    fn hosts_that_were_looked_at_otherwise_are_held_against_their_like() {
        // Three hosts have another threshold, and are too few to be judged.
        let mut all = lots(&[200; 20], OSNOISE);
        all.extend(lots(&[9_000, 200, 200], ("osnoise", 100)));
        let judged = Judged::new(&all);
        assert_eq!((judged.out.len(), judged.large().count()), (0, 1));
        assert_eq!(judged.large().next().unwrap().places.len(), 20);
        // Each of two groups of nine has one outlier. Hosts with the finer threshold lose more.
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
        // Only one host loses time: first one gap, then a thousandth of its time.
        let mut lost = [0; 9];
        lost[3] = 99;
        assert_eq!(Judged::new(&lots(&lost, OSNOISE)).out, [0; 0]);
        lost[3] = 100;
        assert_eq!(Judged::new(&lots(&lost, OSNOISE)).out, [3]);
    }
}
