//! Lateness of the timers under one setting, and whether the setting keeps a goal.

use serde::Serialize;
use vmnoise_events::coverage::{Coverage, Question};
use vmnoise_explain::Lengths;

use crate::check::odds::{Bursts, Decision, LONGEST_NS, Odds, seen};

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
    /// Undecided: too few timers were seen, or the run may have missed bursts of late timers.
    Open {
        /// Number of timers that most likely decides; `None` if unknown.
        needed: Option<u64>,
    },
}

/// Lateness of the timers of one setting, by window.
#[derive(Debug, Default)]
pub struct Lateness {
    whole: Lengths,
    windows: Vec<TimerWindow>,
}

/// Timers of one window.
#[derive(Debug)]
struct TimerWindow {
    length_ns: u64,
    /// Pairs of a lateness in ns and the number of timers with this lateness.
    counts: Vec<(u64, u64)>,
}

impl TimerWindow {
    fn lengths(&self) -> Lengths {
        let mut lengths = Lengths::default();
        for &(late_ns, count) in &self.counts {
            lengths.record_n(late_ns, count);
        }
        lengths
    }

    /// Returns the number of timers that are later than the limit.
    fn above(&self, limit_ns: u64) -> u64 {
        let counts = self.counts.iter();
        let late = counts.filter(|(late_ns, _)| *late_ns > limit_ns);
        late.map(|(_, count)| count).sum()
    }

    /// Returns the largest number of cells of this window that may have late timers.
    fn bad_cells(&self, limit_ns: u64) -> u64 {
        let cells = self.length_ns.div_ceil(LONGEST_NS);
        self.above(limit_ns).min(cells)
    }
}

impl Lateness {
    /// Adds the next window: its length in ns, and pairs of a lateness in ns and the number of
    /// timers with this lateness.
    pub fn push(&mut self, length_ns: u64, counts: Vec<(u64, u64)>) {
        for &(late_ns, count) in &counts {
            self.whole.record_n(late_ns, count);
        }
        self.windows.push(TimerWindow { length_ns, counts });
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
    /// that moment, so the number of timers is reduced if windows differ. Blind spots, and bursts
    /// that the run may have missed, prevent [`Keeps::Yes`].
    pub fn keeps(&self, goal: &Goal, coverage: &Coverage) -> Keeps {
        let windows = self.windows.iter();
        let windows = windows.map(|it| (it.lengths(), it.above(goal.limit_ns)));
        let windows: Vec<(Lengths, u64)> = windows.collect();
        let pairs = windows.iter().map(|(lengths, above)| (lengths, *above));
        let seen = seen(&self.whole, pairs, goal.limit_ns);
        let above = windows.iter().map(|(_, above)| above).sum();
        let Some(odds) = Odds::new(self.count(), above, 0, &seen, goal.risk) else {
            return Keeps::Open { needed: None };
        };
        let odds = odds.with_bursts(self.bursts(goal));
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

    /// Returns the bursts of late timers. A window does not show when its late timers were. So each
    /// late timer counts as a bad cell of its own, as far as the window has cells.
    fn bursts(&self, goal: &Goal) -> Bursts {
        let windows = || self.windows.iter();
        let length_ns: u64 = windows().map(|it| it.length_ns).sum();
        Bursts {
            windows: windows().filter(|it| it.above(goal.limit_ns) > 0).count(),
            cells: length_ns / LONGEST_NS,
            bad: windows().map(|it| it.bad_cells(goal.limit_ns)).sum(),
            part: goal.above.clamp(f64::MIN_POSITIVE, 0.99),
        }
    }
}

fn is_seen(goal: &Goal, coverage: &Coverage) -> bool {
    let question = Question::Often(goal.limit_ns as f64);
    coverage.blind_spots(question).is_empty()
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

    /// Length of a window. Ten of them have 500 cells of 100 ms. If one cell in 100 is bad, 459
    /// cells without a bad one have a probability below 1 %: 0.99^n = 0.01 gives n = 458.2.
    const LONG_NS: u64 = 50 * LONGEST_NS;

    /// Returns ten windows. Each has `in_time` punctual timers and `late` late timers.
    fn windows(in_time: u64, late: u64) -> Lateness {
        windows_of(LONG_NS, [(in_time, late); 10])
    }

    /// Returns windows of this length, each with its numbers of punctual and of late timers.
    fn windows_of(length_ns: u64, counts: [(u64, u64); 10]) -> Lateness {
        let mut lateness = Lateness::default();
        for (in_time, late) in counts {
            lateness.push(length_ns, vec![(15_000, in_time), (30_000, late)]);
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
            lateness.push(LONG_NS, vec![(GOAL.limit_ns, 1_000)]);
        }
        assert_eq!(lateness.keeps(&GOAL, &whole()), Keeps::Yes);
        assert_eq!(lateness.count(), 10_000);
        assert_eq!(Lateness::default().at(0.5), None);
    }

    /// The same number of timers is late, but all of them in one window. This is evidence of only
    /// one bad moment.
    #[test]
    fn one_bad_moment_is_no_proof() {
        let mut counts = [(1_000, 0); 10];
        counts[0] = (500, 500);
        assert!(matches!(
            windows_of(LONG_NS, counts).keeps(&GOAL, &whole()),
            Keeps::Open { .. }
        ));
    }

    /// Thousands of punctual timers in one second are evidence of only this second. Bursts of late
    /// timers may come once in a minute.
    #[test]
    fn a_short_run_that_may_have_missed_bursts_is_open() {
        let quiet = windows_of(LONGEST_NS, [(1_000, 0); 10]);
        let Keeps::Open { needed } = quiet.keeps(&GOAL, &whole()) else {
            panic!("{:?}", quiet.keeps(&GOAL, &whole()));
        };
        // The run has 10 cells, and 458.2 are needed: 45.82 times as many timers.
        let times = needed.unwrap() as f64 / quiet.count() as f64;
        assert!((45.8..45.9).contains(&times), "{times}");
    }

    /// One timer in 1,000 is late, in each window. So the run shows how late timers come.
    #[test]
    fn a_short_run_that_met_bursts_keeps_the_goal() {
        let met = windows_of(LONGEST_NS, [(999, 1); 10]);
        assert_eq!(met.keeps(&GOAL, &whole()), Keeps::Yes);
    }

    /// Three late timers are in up to three of 500 cells. If one cell in 100 is bad, so few have a
    /// probability of 26 % (Poisson with a mean of 5: e^-5 (1 + 5 + 12.5 + 20.8)).
    #[test]
    fn late_timers_in_few_windows_may_be_bursts() {
        let mut counts = [(1_000, 0); 10];
        for window in &mut counts[..3] {
            *window = (999, 1);
        }
        let few = windows_of(LONG_NS, counts);
        assert!(matches!(
            few.keeps(&GOAL, &whole()),
            Keeps::Open { needed: Some(_) }
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
