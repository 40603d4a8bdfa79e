//! Which hosts, or ranks, lose far more than the others.
//!
//! Only those are held against one another that were looked at alike: by the same workload, and from the same length of
//! gaps on. One stands out that lies beyond Tukey's outer fence (*Exploratory Data Analysis*, 1977: three times the distance
//! of the quartiles above the upper one), and loses at least twice as much as the one in the middle and a thousandth of its
//! time: where most lose next to nothing, a gap more is beyond any fence. Of a thousand that are alike and vary as a normal
//! distribution does one lies there in a thousand fleets.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::lot::{Lot, Taker};

/// Quartiles of fewer say nothing.
pub(crate) const LEAST: usize = 8;
/// How much more than the one in the middle is much.
pub(crate) const TIMES: f64 = 2.0;
/// Who loses less than this many percent does not stand out.
pub(crate) const LEAST_LOST: f64 = 0.1;

/// Lots, each held against its like. Places are those of all lots.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Those that were looked at alike; the largest group first.
    pub(crate) groups: Vec<Group>,
    /// All that are in a group: the one that loses most first.
    pub(crate) places: Vec<usize>,
    /// Those that stand out in their group: the one that loses most first.
    pub(crate) out: Vec<usize>,
}

/// Lots that were looked at alike.
#[derive(Debug)]
pub(crate) struct Group {
    /// Their places: the one that loses most first.
    pub(crate) places: Vec<usize>,
    /// What the one in the middle loses, percent.
    pub(crate) median: f64,
    /// How many of them stand out: the first ones.
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

    /// Groups of which it can be said who stands out.
    pub(crate) fn large(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|it| it.is_large())
    }

    /// The group of this lot.
    pub(crate) fn group_of(&self, place: usize) -> Option<&Group> {
        self.groups.iter().find(|it| it.places.contains(&place))
    }

    /// Who took more of this lot's time than of that of the lot in the middle of its group, and how much more, percent.
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

    /// Whether there are enough for it to be said who stands out.
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
        assert_eq!(Judged::new(&lots(&usual, OSNOISE)).out, [0; 0]);
        let mut with_worst = usual.clone();
        with_worst[17] = 900;
        let judged = Judged::new(&lots(&with_worst, OSNOISE));
        assert_eq!(judged.out, [17]);
        // Beyond the fence, but not twice as much.
        with_worst[17] = 350;
        assert_eq!(Judged::new(&lots(&with_worst, OSNOISE)).out, [0; 0]);
        // Of so few nobody is told apart.
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
        // In groups of nine, with one that stands out in each; the finer threshold loses more.
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
        // Of those that lose nothing one loses a gap, and then a thousandth of its time.
        let mut lost = [0; 9];
        lost[3] = 99;
        assert_eq!(Judged::new(&lots(&lost, OSNOISE)).out, [0; 0]);
        lost[3] = 100;
        assert_eq!(Judged::new(&lots(&lost, OSNOISE)).out, [3]);
    }
}
