//! Computes how far off a recorded clock can be before the exits of its vCPU contradict the clock.
//! Each exit can move only between two instants at which the guest provably ran.

/// Shifts of a vCPU's exits, in cycles of the guest's counter, and the number of gaps that allow
/// each shift.
#[derive(Debug, Default)]
pub(super) struct Slack {
    gaps: usize,
    /// Number of gaps that the recorded clock contradicts: they do not allow a shift of 0.
    against: usize,
    /// Smallest shift of each range of allowed shifts, over all gaps. The ranges of one gap are
    /// disjoint.
    firsts: Vec<i64>,
    /// Largest shift of each range of allowed shifts, over all gaps.
    lasts: Vec<i64>,
    /// Test whose exits are being added, with the shifts that all its exits so far allow.
    open: Option<(Test, Vec<Room>)>,
}

/// Test of a clock, with the index of its gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    /// The exits lie in the gap with this index.
    Gap(usize),
    /// The exits lie before the gap with this index.
    Between(usize),
}

/// Range of shifts: the smallest and the largest.
pub(super) type Room = (i64, i64);

impl Slack {
    /// Adds an exit of this test; exits of one test come one after another. `rooms` are the ranges
    /// of shifts that the exit allows, ascending and disjoint.
    pub(super) fn add(&mut self, test: Test, rooms: Vec<Room>) {
        match &mut self.open {
            Some((last, left)) if *last == test => *left = common(left, &rooms),
            _ => {
                self.close();
                self.open = Some((test, rooms));
            }
        }
    }

    fn close(&mut self) {
        if let Some((_, rooms)) = self.open.take() {
            self.gaps += 1;
            self.against +=
                usize::from(!rooms.iter().any(|(first, last)| *first <= 0 && 0 <= *last));
            for (first, last) in rooms {
                self.firsts.push(first);
                self.lasts.push(last);
            }
        }
    }

    /// Returns the number of gaps.
    pub(super) fn gaps(&mut self) -> usize {
        self.close();
        self.gaps
    }

    /// Returns the number of gaps that the recorded clock contradicts.
    pub(super) fn against(&mut self) -> usize {
        self.close();
        self.against
    }

    /// Returns the smallest and the largest shift that contradicts at most `strays` gaps more than
    /// the recorded clock does; at least one gap must allow the shift. `None` if no gap allows any
    /// shift.
    pub(super) fn reach(&mut self, strays: usize) -> Option<Room> {
        let gaps = self.gaps();
        let needed = gaps.saturating_sub(self.against + strays).max(1);
        self.firsts.sort_unstable();
        self.lasts.sort_unstable();
        let mut lasts = self.lasts.iter().peekable();
        let mut allow = 0;
        let mut least = None;
        for first in &self.firsts {
            while lasts.next_if(|last| *last < first).is_some() {
                allow -= 1;
            }
            allow += 1;
            if allow >= needed {
                least = Some(*first);
                break;
            }
        }
        let mut firsts = self.firsts.iter().rev().peekable();
        let mut allow = 0;
        let mut greatest = None;
        for last in self.lasts.iter().rev() {
            while firsts.next_if(|first| *first > last).is_some() {
                allow -= 1;
            }
            allow += 1;
            if allow >= needed {
                greatest = Some(*last);
                break;
            }
        }
        least.zip(greatest)
    }
}

/// Returns the shifts at which an exit from `start` to `end` lies between `from` and `to` and
/// contains none of the instants. The instants are ascending and lie between `from` and `to`. Each
/// instant may be off by `margin`. An exit that extends beyond `from` or `to` by at most `margin`
/// counts as inside.
pub(super) fn rooms(
    (start, end): (u64, u64),
    (from, to): (u64, u64),
    instants: &[u64],
    margin: u64,
) -> Vec<Room> {
    let margin = margin.cast_signed();
    let until = |at: u64, edge: u64| at.wrapping_sub(edge).cast_signed();
    let (least, most) = (until(from, start), until(to, end));
    let least = if (0..=margin).contains(&least) {
        0
    } else {
        least
    };
    let most = if (-margin..=0).contains(&most) {
        0
    } else {
        most
    };
    let after = instants
        .iter()
        .map(|at| until(*at, start).saturating_sub(margin));
    let before = instants
        .iter()
        .map(|at| until(*at, end).saturating_add(margin));
    let firsts = std::iter::once(least).chain(after.map(|first| first.max(least)));
    let lasts = before.map(|last| last.min(most)).chain([most]);
    apart(firsts.zip(lasts))
}

/// Returns the ranges merged, ascending and disjoint.
pub(super) fn apart(rooms: impl Iterator<Item = Room>) -> Vec<Room> {
    let mut sorted: Vec<Room> = rooms.filter(|(first, last)| first <= last).collect();
    sorted.sort_unstable();
    let mut apart: Vec<Room> = Vec::with_capacity(sorted.len());
    for (first, last) in sorted {
        match apart.last_mut() {
            Some((_, reached)) if first <= *reached => *reached = last.max(*reached),
            _ => apart.push((first, last)),
        }
    }
    apart
}

/// Returns the shifts that are in both `a` and `b`.
fn common(a: &[Room], b: &[Room]) -> Vec<Room> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        let (first, last) = (x.0.max(y.0), x.1.min(y.1));
        if first <= last {
            both.push((first, last));
        }
        match x.1 < y.1 {
            true => a.next(),
            false => b.next(),
        };
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(tests: &[&[Room]], strays: usize) -> Option<Room> {
        let mut slack = Slack::default();
        for (test, rooms) in tests.iter().enumerate() {
            slack.add(Test::Gap(test), rooms.to_vec());
        }
        slack.reach(strays)
    }

    #[test]
    fn every_gap_bounds_both_directions() {
        assert_eq!(reach(&[], 0), None);
        assert_eq!(reach(&[&[(-5, 9)]], 0), Some((-5, 9)));
        assert_eq!(reach(&[&[(-5, 9)], &[(-7, 2)]], 0), Some((-5, 2)));
        assert_eq!(reach(&[&[(-5, 0)], &[(0, 2)]], 0), Some((0, 0)));
    }

    #[test]
    fn so_many_gaps_may_be_wrong() {
        let tests: [&[Room]; 3] = [&[(-5, 9)], &[(-7, 2)], &[(-1, 1)]];
        assert_eq!(reach(&tests, 0), Some((-1, 1)));
        assert_eq!(reach(&tests, 1), Some((-5, 2)));
        assert_eq!(reach(&tests, 3), Some((-7, 9)), "one has to allow it");
    }

    #[test]
    fn a_shift_is_as_good_as_the_recorded_clock() {
        let tests: [&[Room]; 3] = [&[(-5, 9)], &[(-7, 2)], &[(1, 30)]];
        assert_eq!(
            reach(&tests, 0),
            Some((-5, 9)),
            "one contradicts it already"
        );
    }

    #[test]
    fn an_island_that_all_allow_is_reached() {
        let tests: [&[Room]; 2] = [&[(-9, -8), (-1, 1), (20, 30)], &[(-2, 40)]];
        assert_eq!(reach(&tests, 0), Some((-1, 30)));
        assert_eq!(reach(&tests, 1), Some((-9, 40)));
    }

    #[test]
    fn exits_of_one_gap_count_once() {
        let mut slack = Slack::default();
        slack.add(Test::Gap(4), vec![(-5, 9)]);
        slack.add(Test::Gap(4), vec![(-7, -6), (-2, 2), (8, 30)]);
        slack.add(Test::Gap(5), vec![(-100, 100)]);
        assert_eq!((slack.gaps(), slack.against()), (2, 0));
        assert_eq!(slack.reach(0), Some((-2, 9)));
    }

    #[test]
    fn no_instant_of_the_guest_lies_in_an_exit() {
        let at = |instants: &[u64], margin| rooms((1_000, 1_100), (900, 2_000), instants, margin);
        assert_eq!(at(&[], 0), [(-100, 900)]);
        assert_eq!(at(&[1_150], 0), [(-100, 50), (150, 900)]);
        assert_eq!(at(&[1_150], 10), [(-100, 60), (140, 900)]);
        assert_eq!(at(&[950, 1_150], 0), [(-50, 50), (150, 900)]);
        assert_eq!(at(&[1_150, 1_190], 0), [(-100, 50), (190, 900)]);
        assert_eq!(at(&[1_050], 0), [(-100, -50), (50, 900)], "it is off");
        assert_eq!(at(&[1_050], 60), [(-100, 900)], "nobody knows");
    }

    #[test]
    fn an_exit_that_fills_its_gap_may_reach_over_it_a_little() {
        assert_eq!(rooms((1_000, 1_100), (1_005, 1_095), &[], 5), [(0, 0)]);
        assert!(rooms((1_000, 1_100), (1_005, 1_095), &[], 4).is_empty());
    }

    /// Compares [`Slack::reach`] with a trial of every shift.
    #[test]
    fn the_reach_is_that_of_every_shift_tried() {
        let mut seed = 7_u64;
        let mut roll = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..2_000 {
            let tests: Vec<Vec<Room>> = (0..1 + roll(6))
                .map(|_| {
                    let (from, to) = (100 - roll(30), 120 + roll(30));
                    let mut instants: Vec<u64> =
                        (0..roll(4)).map(|_| from + roll(to - from)).collect();
                    instants.sort_unstable();
                    rooms((100, 100 + roll(20)), (from, to), &instants, 0)
                })
                .collect();
            let strays = roll(2) as usize;
            let allows =
                |rooms: &Vec<Room>, shift| rooms.iter().any(|(a, b)| (*a..=*b).contains(&shift));
            let against = |shift| tests.iter().filter(|rooms| !allows(rooms, shift)).count();
            let as_good = |shift: &i64| against(*shift) <= against(0) + strays;
            let tried = || (-200..200).filter(as_good);
            let by_trying = tried().next().zip(tried().next_back());
            let reported = reach(&tests.iter().map(Vec::as_slice).collect::<Vec<_>>(), strays);
            match tests.len() > against(0) + strays {
                true => assert_eq!(reported, by_trying, "{tests:?} {strays}"),
                false => {
                    let allowed = |shift: &i64| against(*shift) < tests.len();
                    let tried = || (-200..200).filter(allowed);
                    assert_eq!(reported, tried().next().zip(tried().next_back()));
                }
            }
        }
    }
}
