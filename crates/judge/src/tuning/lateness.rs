//! How late timers of one setting were, and whether that keeps a goal.

use serde::Serialize;
use vmnoise_events::coverage::{Coverage, Question};
use vmnoise_explain::Lengths;

use crate::check::odds::{Decision, Odds, seen};

/// How late timers may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// No more than this, in ns …
    pub limit_ns: u64,
    /// … for this part of all timers (0 to 1) but so many.
    pub above: f64,
    /// How often, at most, a decision may be wrong by chance (0 to 1).
    pub risk: f64,
}

/// Whether a setting keeps a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeps {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It could be either: too few timers were seen.
    Open {
        /// With how many it most likely is decided; `None` where that is not known.
        needed: Option<u64>,
    },
}

/// How late the timers of one setting were, window by window.
#[derive(Debug, Default)]
pub struct Lateness {
    whole: Lengths,
    windows: Vec<Vec<(u64, u64)>>,
}

impl Lateness {
    /// Adds the next window: lengths in ns, and how many timers were that late.
    pub fn push(&mut self, window: Vec<(u64, u64)>) {
        for &(late_ns, count) in &window {
            self.whole.record_n(late_ns, count);
        }
        self.windows.push(window);
    }

    /// How many timers there were.
    pub fn count(&self) -> u64 {
        self.whole.count()
    }

    /// Of all timers this part (0 to 1) was no later, in ns, to three digits; `None` without any.
    pub fn at(&self, part: f64) -> Option<u64> {
        let [late_ns] = self.whole.at_quantiles([part]);
        (self.count() > 0).then_some(late_ns)
    }

    /// Whether it keeps the goal, by what was seen: timers of a noisy moment tell of that moment
    /// alone, so windows that differ count for less. Nothing keeps it that could not be seen.
    pub fn keeps(&self, goal: &Goal, coverage: &Coverage) -> Keeps {
        let windows = self.windows.iter().map(|counts| {
            let mut lengths = Lengths::default();
            for &(late_ns, count) in counts {
                lengths.record_n(late_ns, count);
            }
            (lengths, above(counts, goal.limit_ns))
        });
        let windows: Vec<(Lengths, u64)> = windows.collect();
        let pairs = windows.iter().map(|(lengths, above)| (lengths, *above));
        let seen = seen(&self.whole, pairs, goal.limit_ns);
        let above = windows.iter().map(|(_, above)| above).sum();
        let Some(odds) = Odds::new(self.count(), above, 0, &seen, goal.risk) else {
            return Keeps::Open { needed: None };
        };
        match odds.decide(goal.above) {
            Decision::Kept if !is_seen(goal, coverage) => Keeps::Open { needed: None },
            Decision::Kept => Keeps::Yes,
            Decision::Broken => Keeps::No,
            Decision::Open | Decision::Unmet => {
                let needed = odds.count_to_ask_for(goal.above).ceil();
                // A float that is too large for a u64 becomes the largest.
                let needed = (needed < u64::MAX as f64).then_some(needed as u64);
                Keeps::Open {
                    needed: needed.map(|it| it.max(self.count())),
                }
            }
        }
    }
}

fn is_seen(goal: &Goal, coverage: &Coverage) -> bool {
    let question = Question::Often(goal.limit_ns as f64);
    coverage.blind_spots(question).is_empty()
}

fn above(counts: &[(u64, u64)], limit_ns: u64) -> u64 {
    let late = counts.iter().filter(|(late_ns, _)| *late_ns > limit_ns);
    late.map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use vmnoise_events::Workload;

    use super::*;

    const GOAL: Goal = Goal {
        limit_ns: 20_000,
        above: 0.01,
        risk: 0.01,
    };

    fn whole() -> Coverage {
        Coverage::of_workload(Workload::Timerlat)
    }

    /// Ten windows with so many timers in time and so many late in each.
    fn windows(in_time: u64, late: u64) -> Lateness {
        let mut lateness = Lateness::default();
        for _ in 0..10 {
            lateness.push(vec![(15_000, in_time), (30_000, late)]);
        }
        lateness
    }

    #[test]
    fn a_goal_is_kept_broken_or_open_by_how_much_was_seen() {
        assert_eq!(windows(1_000, 0).keeps(&GOAL, &whole()), Keeps::Yes);
        assert_eq!(windows(950, 50).keeps(&GOAL, &whole()), Keeps::No);
        // None of 100 is late: that is as likely as not where one in 100 is.
        let Keeps::Open { needed } = windows(10, 0).keeps(&GOAL, &whole()) else {
            panic!("{:?}", windows(10, 0).keeps(&GOAL, &whole()));
        };
        // 0.99^n = 0.01 has n = 459, and as few would do only if none were ever late.
        assert!(needed.unwrap() > 459, "{needed:?}");
        assert_eq!(
            Lateness::default().keeps(&GOAL, &whole()),
            Keeps::Open { needed: None }
        );
    }

    #[test]
    fn what_is_exactly_the_goal_keeps_it() {
        let mut lateness = Lateness::default();
        for _ in 0..10 {
            lateness.push(vec![(GOAL.limit_ns, 1_000)]);
        }
        assert_eq!(lateness.keeps(&GOAL, &whole()), Keeps::Yes);
        assert_eq!(lateness.count(), 10_000);
        assert_eq!(Lateness::default().at(0.5), None);
    }

    /// As many late ones in all, but in one window: that tells of one bad moment.
    #[test]
    fn one_bad_moment_is_no_proof() {
        let mut lateness = Lateness::default();
        for window in 0..10 {
            let late = if window == 0 { 500 } else { 0 };
            lateness.push(vec![(15_000, 1_000 - late), (30_000, late)]);
        }
        assert!(matches!(
            lateness.keeps(&GOAL, &whole()),
            Keeps::Open { .. }
        ));
    }

    /// Sums that cannot all be true may have missed any timer; those that were too late stay too late.
    #[test]
    fn what_could_not_be_seen_keeps_no_goal() {
        let blind = Coverage {
            more_taken_than_measured: true,
            ..whole()
        };
        let open = Keeps::Open { needed: None };
        assert_eq!(windows(1_000, 0).keeps(&GOAL, &blind), open);
        assert_eq!(windows(950, 50).keeps(&GOAL, &blind), Keeps::No);
    }
}
