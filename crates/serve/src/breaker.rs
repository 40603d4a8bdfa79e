//! Limits the cost of the programs. If the cost exceeds the limit for some seconds, the programs
//! are detached for a pause. Each further pause is longer. Pure: the caller passes the time and the
//! cost.

use std::time::Duration;

/// Number of consecutive polls above the limit that cause a pause. A single poll may be wrong: only
/// one run in 256 is timed, and a hypervisor may take time during such a run.
const LOOKS: u32 = 5;
/// Length of the first pause. [`LONGEST`] is the length of the longest pause.
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3_600);
/// If the cost stays below the limit for this time, the next pause has the first length again.
const CHEAP: Duration = Duration::from_secs(600);

/// Action that the caller should take after a poll.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Advice {
    GoOn,
    /// Pause for `length`. `cost` is the measured cost as a share of the time of all CPUs.
    Pause {
        cost: f64,
        length: Duration,
    },
    Resume,
}

#[derive(Debug)]
pub(crate) struct Breaker {
    /// Largest allowed cost, as a share of the time of all CPUs.
    limit: f64,
    cpus: u32,
    /// Time and total cost at the last poll.
    last: Option<(Duration, Duration)>,
    dear: u32,
    /// End of the last or current pause.
    until: Duration,
    is_paused: bool,
    length: Duration,
}

impl Breaker {
    pub(crate) fn new(limit: f64, cpus: u32) -> Breaker {
        Breaker {
            limit,
            cpus,
            last: None,
            dear: 0,
            until: Duration::ZERO,
            is_paused: false,
            length: FIRST,
        }
    }

    /// Takes the time and cost of a poll, and returns what to do. `now` is the time of any clock
    /// that never stops. `cost` is the CPU time so far.
    pub(crate) fn look(&mut self, now: Duration, cost: Duration) -> Advice {
        let share = self.share_since(now, cost);
        self.last = Some((now, cost));
        if self.is_paused {
            if now < self.until {
                return Advice::GoOn;
            }
            (self.is_paused, self.dear) = (false, 0);
            return Advice::Resume;
        }
        let Some(share) = share else {
            return Advice::GoOn;
        };
        self.dear = if share > self.limit { self.dear + 1 } else { 0 };
        if self.dear < LOOKS {
            return Advice::GoOn;
        }
        let was_cheap = now.saturating_sub(self.until) > CHEAP;
        let length = if was_cheap { FIRST } else { self.length };
        self.length = (length * 2).min(LONGEST);
        self.until = now + length;
        self.is_paused = true;
        Advice::Pause {
            cost: share,
            length,
        }
    }

    /// Cancels a pause, because the caller reduced the cost in another way. The number of
    /// consecutive polls above the limit becomes 0.
    pub(crate) fn spare(&mut self) {
        (self.is_paused, self.dear) = (false, 0);
    }

    /// Prolongs the pause after a failed attempt to resume. Returns the time until the next
    /// attempt.
    pub(crate) fn wait_on(&mut self, now: Duration) -> Duration {
        self.is_paused = true;
        self.until = now + self.length;
        self.length
    }

    fn share_since(&self, now: Duration, cost: Duration) -> Option<f64> {
        let (then, cost_then) = self.last?;
        let wall = now.checked_sub(then).filter(|wall| !wall.is_zero())?;
        let cost = cost.saturating_sub(cost_then);
        Some(cost.as_secs_f64() / wall.as_secs_f64() / f64::from(self.cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the advice of each poll with its second. `costs_ms` are the costs of each second in
    /// ms.
    fn advices(
        breaker: &mut Breaker,
        from: u64,
        costs_ms: impl IntoIterator<Item = u64>,
    ) -> Vec<(u64, Advice)> {
        let (_, mut cost) = breaker.last.unwrap_or_default();
        let mut advices = Vec::new();
        for (second, ms) in (from..).zip(costs_ms) {
            cost += Duration::from_millis(ms);
            match breaker.look(Duration::from_secs(second), cost) {
                Advice::GoOn => {}
                advice => advices.push((second, advice)),
            }
        }
        advices
    }

    /// Returns a breaker with a limit of 1 % of four CPUs, which is 40 ms per second.
    fn breaker() -> Breaker {
        Breaker::new(0.01, 4)
    }

    #[test]
    fn what_costs_as_much_as_it_may_goes_on_and_so_does_what_is_dear_now_and_then() {
        assert_eq!(advices(&mut breaker(), 0, [40; 100]), []);
        let costs = (0..100).map(|second| if second % 5 == 0 { 10 } else { 400 });
        assert_eq!(advices(&mut breaker(), 0, costs), []);
    }

    #[test]
    fn each_pause_is_longer_until_it_was_cheap_for_long() {
        let mut breaker = breaker();
        let told = advices(&mut breaker, 0, [60; 1_000]);
        let begins = |at, seconds| {
            let length = Duration::from_secs(seconds);
            (
                at,
                Advice::Pause {
                    cost: 0.015,
                    length,
                },
            )
        };
        let ends = |at| (at, Advice::Resume);
        // The first poll has no earlier poll to compare with. The cost in the pause is measured at
        // the poll that resumes.
        let expected = [
            begins(5, 60),
            ends(65),
            begins(70, 120),
            ends(190),
            begins(195, 240),
            ends(435),
            begins(440, 480),
            ends(920),
            begins(925, 960),
        ];
        assert_eq!(told, expected);
        let told = advices(&mut breaker, 1_000, [1; 2_000]);
        assert_eq!(told, [ends(925 + 960)]);
        let told = advices(&mut breaker, 3_000, [60; 10]);
        assert_eq!(told, [begins(3_004, 60)]);
    }

    #[test]
    fn who_is_spared_is_judged_anew() {
        let mut breaker = breaker();
        assert_eq!(advices(&mut breaker, 0, [60; 6]).len(), 1);
        breaker.spare();
        assert_eq!(advices(&mut breaker, 6, [60; 4]), []);
        let told = advices(&mut breaker, 10, [60]);
        assert!(matches!(told[..], [(10, Advice::Pause { .. })]), "{told:?}");
    }

    #[test]
    fn no_pause_is_longer_than_an_hour() {
        let mut breaker = breaker();
        let told = advices(&mut breaker, 0, std::iter::repeat_n(60, 40_000));
        let lengths = told.iter().filter_map(|(_, advice)| match advice {
            Advice::Pause { length, .. } => Some(*length),
            _ => None,
        });
        assert_eq!(lengths.max(), Some(LONGEST));
    }
}
