//! Lateness of the timers under one setting, and whether the setting keeps a goal.

use serde::Serialize;
use vmnoise_events::coverage::{Coverage, Question};
use vmnoise_explain::Lengths;

use crate::check::odds::{Decision, Odds, seen};

/// Goal for the lateness of timers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Largest lateness that the goal allows, in ns.
    pub limit_ns: u64,
    /// Part of all timers (0 to 1) that may exceed the limit.
    pub above: f64,
    /// Highest probability (0 to 1) that chance causes a wrong decision.
    pub risk: f64,
}

/// Whether a setting keeps a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeps {
    /// The goal is kept.
    Yes,
    /// The goal is not kept.
    No,
    /// Undecided: too few timers were seen.
    Open {
        /// Number of timers that most likely decides; `None` if unknown.
        needed: Option<u64>,
    },
}

/// Lateness of the timers of one setting, by window.
#[derive(Debug, Default)]
pub struct Lateness {
    whole: Lengths,
    windows: Vec<Vec<(u64, u64)>>,
}

impl Lateness {
    /// Adds the next window: pairs of a lateness in ns and the number of timers with this lateness.
    pub fn push(&mut self, window: Vec<(u64, u64)>) {
        for &(late_ns, count) in &window {
            self.whole.record_n(late_ns, count);
        }
        self.windows.push(window);
    }

    /// Returns the number of timers.
    pub fn count(&self) -> u64 {
        self.whole.count()
    }

    /// Returns the lateness, in ns, that `part` (0 to 1) of all timers did not exceed. Three digits
    /// are exact. `None` without timers.
    pub fn at(&self, part: f64) -> Option<u64> {
        let [late_ns] = self.whole.at_quantiles([part]);
        (self.count() > 0).then_some(late_ns)
    }

    /// Returns whether the setting keeps the goal. Timers in a noisy moment are evidence of only
    /// that moment, so the number of timers is reduced if windows differ. Blind spots prevent
    /// [`Keeps::Yes`].
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
                // The cast turns a float that is too large for a u64 into the largest u64.
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
    use vmnoise_events::MeasuringCommand;

    use super::*;

    const GOAL: Goal = Goal {
        limit_ns: 20_000,
        above: 0.01,
        risk: 0.01,
    };

    fn whole() -> Coverage {
        Coverage::of_workload(MeasuringCommand::Timerlat)
    }

    /// Returns ten windows. Each has `in_time` punctual timers and `late` late timers.
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
        // None of 100 timers is late. This is likely even if one timer in 100 is late on average.
        let Keeps::Open { needed } = windows(10, 0).keeps(&GOAL, &whole()) else {
            panic!("{:?}", windows(10, 0).keeps(&GOAL, &whole()));
        };
        // 0.99^n = 0.01 gives n = 459. This number is enough only if no timer is ever late.
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

    /// The same number of timers is late, but all of them in one window. This is evidence of only
    /// one bad moment.
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

    /// If sums of the recording contradict each other, any timer may be missing. A broken goal
    /// stays broken.
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
