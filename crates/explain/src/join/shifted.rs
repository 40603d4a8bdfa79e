//! Compares exits with gaps at every clock offset within reach.

use super::elsewhere::Elsewhere;
use super::observed_cpu::Holes;
use super::odds::Stakes;
use super::trial::{Span, Trial};

/// Number of tests that are compared at other offsets; more tests add little information.
const ENOUGH: usize = 1_024;
/// Minimum number of tests in a sample. With fewer tests, other offsets stay unknown.
const LEAST: usize = 16;
/// Divisor of the mean time between two tests. Tests closer together than the quotient belong to
/// one burst.
const BURST_PART: u64 = 4;
/// Minimum reach of the search for another clock, in seconds. A shorter recording limits the reach
/// further.
const NEAR_S: u64 = 1;
/// Maximum reach of the search for another clock, in seconds.
const FAR_S: u64 = 16;

/// Limits on the number of gaps, windows of polling and instants that a comparison visits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looks {
    /// Expected number of visits, by which the sample of tests is chosen. This number assumes
    /// evenly spread gaps.
    pub(super) aim: usize,
    /// Maximum number of visits, for any distribution of gaps.
    pub(super) most: usize,
}

/// Tests with the recorded clock, and their error bounds.
pub(super) struct Overlaid<'a> {
    /// All tests.
    pub(super) all: &'a [Trial],
    /// Error bound of the readings of either side's clocks, in cycles of the guest's counter.
    pub(super) margin_tsc: u64,
    /// Error bound of an instant at which the guest ran, relative to an exit, in cycles of the
    /// guest's counter.
    pub(super) ran_margin_tsc: u64,
    /// Function that returns the probabilities of a test.
    pub(super) stakes: &'a dyn Fn(&Trial) -> Stakes,
}

/// Compares a sample of the tests with the gaps at every offset. If too few tests fit into the
/// limits, other offsets stay unknown and nothing is proven.
pub(super) fn overlay(
    tests: &Overlaid<'_>,
    holes: &Holes<'_>,
    tsc_hz: u64,
    looks: Looks,
) -> Elsewhere {
    let (sample, reach) = cut(tests, holes, tsc_hz, looks.aim as f64);
    let mut elsewhere = Elsewhere::default();
    let mut left = looks.most;
    for (placed, trial) in sample.iter().enumerate() {
        let beyond = reach.saturating_add(tests.ran_margin_tsc);
        let Some(rest) = left.checked_sub(holes.looks_near(trial.exit, beyond)) else {
            if placed < LEAST {
                return Elsewhere::unknown();
            }
            break;
        };
        left = rest;
        let stakes = (tests.stakes)(trial);
        let cast = Cast {
            exit: trial.exit,
            margin: tests.margin_tsc,
            ran_margin: tests.ran_margin_tsc,
            reach,
        };
        for stretch in holes.polled_near(trial.exit, reach) {
            let Some(tested) = cast.within(*stretch) else {
                continue;
            };
            elsewhere.add(stakes, trial.agrees, tested, cast.inside(holes, tested));
        }
        elsewhere.count(stakes, trial.agrees);
    }
    elsewhere
}

/// Returns the tests to compare, and the reach in cycles. First chooses the largest reach that fits
/// into `room` visits, then as many tests as fit.
fn cut(tests: &Overlaid<'_>, holes: &Holes<'_>, tsc_hz: u64, room: f64) -> (Vec<Trial>, u64) {
    let all = apart(tests.all);
    let tested = sample(&all, ENOUGH);
    let cycles = holes.extent();
    let fits = tested.iter().map(|trial| holes.fits(trial.exit));
    let fits: usize = fits.sum();
    // Number of gaps to visit per cycle of reach, in both directions.
    let each = 2.0 * fits.max(1) as f64 / cycles.max(1) as f64;
    let least = cycles.min(tsc_hz.saturating_mul(NEAR_S));
    let most = cycles.min(tsc_hz.saturating_mul(FAR_S));
    let reach = ((room / each) as u64).clamp(least, most);
    let affordable = tested.len() as f64 * room / (each * reach.max(1) as f64);
    match (affordable as usize) < tested.len() {
        true => (sample(&all, LEAST.max(affordable as usize)), reach),
        false => (tested, reach),
    }
}

/// Keeps one test of each burst with the same outcome, because one long gap may contain all exits
/// of a burst. The kept test has the smallest probability of chance. The tests are in time order.
fn apart(all: &[Trial]) -> Vec<Trial> {
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return Vec::new();
    };
    let usual_tsc = last.exit.0.saturating_sub(first.exit.0) / all.len() as u64;
    let is_near = |trial: &Trial, begun_tsc: u64| {
        trial.exit.0.saturating_sub(begun_tsc) < usual_tsc / BURST_PART
    };
    let mut apart: Vec<Trial> = Vec::new();
    let mut begun_tsc = 0;
    for trial in all {
        match apart.last_mut() {
            Some(last) if last.agrees == trial.agrees && is_near(trial, begun_tsc) => {
                if trial.chance < last.chance {
                    *last = *trial;
                }
            }
            _ => {
                begun_tsc = trial.exit.0;
                apart.push(*trial);
            }
        }
    }
    apart
}

/// Returns at most `count` tests. One half has the most evidence; the other half is spread evenly
/// over time.
fn sample(all: &[Trial], count: usize) -> Vec<Trial> {
    if all.len() <= count {
        return all.to_vec();
    }
    let mut places: Vec<usize> = (0..all.len()).collect();
    let reporting = count / 2;
    places.select_nth_unstable_by(reporting, |a, b| all[*a].chance.total_cmp(&all[*b].chance));
    places.truncate(reporting);
    let step = all.len() as f64 / (count - reporting) as f64;
    places.extend((0..count - reporting).map(|nth| (nth as f64 * step) as usize));
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|place| all[place]).collect()
}

/// One exit, with the largest offset at which it is compared.
#[derive(Debug, Clone, Copy)]
struct Cast {
    exit: Span,
    margin: u64,
    ran_margin: u64,
    reach: u64,
}

impl Cast {
    /// Returns the time that the exit covers at the offsets from `low` to `high`, extended by
    /// `margin` on both sides.
    fn mapped(&self, (low, high): (i64, i64), margin: u64) -> Span {
        let first = self.exit.0.saturating_add_signed(low);
        let last = self.exit.1.saturating_add_signed(high);
        (first.saturating_sub(margin), last.saturating_add(margin))
    }

    /// Returns the first and the last offset at which the exit, extended by its margin, lies in a
    /// window of polling.
    fn within(&self, (from, to): Span) -> Option<(i64, i64)> {
        let low = away(from.saturating_add(self.margin), self.exit.0);
        let high = away(to.saturating_sub(self.margin), self.exit.1);
        self.clip((low, high), (i64::MIN, i64::MAX))
    }

    /// Returns the ranges of offsets at which the exit agrees, ascending and disjoint. At these
    /// offsets, the exit lies in a gap and the guest ran at no instant of the exit.
    fn inside(self, holes: &Holes<'_>, tested: (i64, i64)) -> impl Iterator<Item = (i64, i64)> {
        let (first, last) = self.mapped(tested, self.margin);
        let near = holes.places_in(first, last);
        let mut reached = i64::MIN;
        let gaps = near.filter_map(move |place| {
            let (from, to) = holes.gap(place);
            let low = away(from.saturating_sub(self.margin), self.exit.0);
            let high = away(to.saturating_add(self.margin), self.exit.1);
            let (low, high) = self.clip((low.max(reached), high), tested)?;
            reached = high.saturating_add(1);
            let (first, last) = self.mapped((low, high), self.ran_margin);
            Some(self.clear(holes.ran_between(place, first, last), (low, high)))
        });
        gaps.flatten()
    }

    /// Returns the ranges of offsets between `low` and `high` at which the exit covers none of the
    /// instants.
    fn clear(self, instants: &[u64], (low, high): (i64, i64)) -> impl Iterator<Item = (i64, i64)> {
        let over = instants.iter().map(move |at| {
            let before = away(at.saturating_add(self.ran_margin), self.exit.1);
            (
                before,
                away(at.saturating_sub(self.ran_margin), self.exit.0),
            )
        });
        let mut from = low;
        // The exit covers the instant at the offsets between `before` and `after`, if there are
        // any.
        let over = over.filter(|(before, after)| before.saturating_add(1) < *after);
        let clear = over.chain([(high, high)]).map(move |(before, after)| {
            let clear = (from, before.min(high));
            from = from.max(after);
            clear
        });
        clear.filter(|(from, to)| from <= to)
    }

    fn clip(&self, (low, high): (i64, i64), tested: (i64, i64)) -> Option<(i64, i64)> {
        let reach = self.reach.min(i64::MAX as u64).cast_signed();
        let (low, high) = (low.max(-reach).max(tested.0), high.min(reach).min(tested.1));
        (low <= high).then_some((low, high))
    }
}

/// Returns the signed distance from `from` to `to`, in cycles.
fn away(to: u64, from: u64) -> i64 {
    let away = i128::from(to) - i128::from(from);
    away.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(start: u64, chance: f32, agrees: bool) -> Trial {
        Trial {
            exit: (start, start + 10),
            chance,
            agrees,
        }
    }

    #[test]
    fn a_burst_counts_once() {
        let burst = (0..10).map(|nth| trial(50_000 + nth * 20, 0.1 + nth as f32, true));
        let rest = (1..6).map(|nth| trial(nth * 100_000, 0.5, true));
        let mut all: Vec<Trial> = burst.chain(rest).collect();
        all.push(trial(500_020, 0.5, false));
        let apart = apart(&all);
        assert_eq!(apart.len(), 1 + 5 + 1, "{apart:?}");
        assert_eq!(apart[0].chance, 0.1);
    }

    #[test]
    fn a_sample_has_what_says_most_and_all_of_the_time() {
        let all: Vec<Trial> = (0..1_000)
            .map(|nth| trial(nth * 100, if nth % 100 == 7 { 0.01 } else { 0.4 }, true))
            .collect();
        let sample = sample(&all, 40);
        assert!((30..=40).contains(&sample.len()), "{}", sample.len());
        let reporting = sample.iter().filter(|trial| trial.chance < 0.1);
        assert_eq!(reporting.count(), 10);
        assert!(sample.iter().any(|trial| trial.exit.0 < 5_000));
        assert!(sample.iter().any(|trial| trial.exit.0 > 94_000));
    }
}
