//! Delay of one rank as a function of the moment at which its step begins.
//!
//! A step needs the CPU time W. If the step begins at t, it ends when the CPU has left W to the
//! rank since t. The delay is the duration of the step minus W. As t grows:
//!
//! - In free time, the end of the step grows with t, so the delay is constant.
//! - When the end of the step meets another gap, the end jumps over the gap, so the delay jumps up.
//! - While t is in a gap, the end stays, so the delay falls by one nanosecond each nanosecond.
//!
//! A step may begin at t if an undisturbed step would end before the end of the run. Gaps after the
//! run are unknown. If a step does not end in the run, its delay is the delay up to the end of the
//! run.

use crate::taken::TakenTime;

/// A time that is later than the end of any run.
const NEVER_NS: u64 = u64::MAX / 2;

/// A rank on its CPU at a moment at which a step may begin.
#[derive(Debug)]
pub(super) struct Rank<'a> {
    begins_ns: &'a [u64],
    taken_ns: &'a [u64],
    to_ns: u64,
    step_ns: u64,
    /// The moment, CLOCK_MONOTONIC in nanoseconds.
    now_ns: u64,
    /// Time that the CPU has left to the rank up to this moment, in nanoseconds.
    left_ns: u64,
    /// Index of the gap that contains the moment; outside of gaps, the index of the next gap.
    next: usize,
    /// Whether the gap at `next` contains the moment.
    is_inside: bool,
    /// Index of the first gap after the end of the step. `left_until_beyond_ns` is the time that
    /// the CPU leaves to the rank up to the begin of this gap.
    beyond: usize,
    left_until_beyond_ns: u64,
    /// Total time that gaps during the step take, in nanoseconds. A gap in which the step begins
    /// counts in full.
    met_ns: u64,
}

impl<'a> Rank<'a> {
    /// Returns a rank whose first step begins at `from_ns`, which must not be before the run. Each
    /// step needs `step_ns` of CPU time.
    pub(super) fn new(taken: &'a TakenTime<'a>, step_ns: u64, from_ns: u64) -> Rank<'a> {
        let mut rank = Rank {
            begins_ns: taken.begins_ns,
            taken_ns: taken.taken_ns(),
            to_ns: taken.to_ns,
            step_ns,
            now_ns: taken.from_ns,
            left_ns: 0,
            next: 0,
            is_inside: false,
            beyond: 0,
            left_until_beyond_ns: 0,
            met_ns: 0,
        };
        rank.left_until_beyond_ns = rank.begin_ns(0) - rank.now_ns;
        rank.arrive();
        while let Some(change_ns) = rank.change_ns().filter(|_| rank.now_ns < from_ns) {
            rank.move_to(change_ns.min(from_ns));
        }
        rank
    }

    /// Returns the begin of this gap; for the index after the last gap, a time after the run.
    fn begin_ns(&self, gap: usize) -> u64 {
        self.begins_ns.get(gap).copied().unwrap_or(NEVER_NS)
    }

    /// Returns the end of the gap that contains the moment.
    fn end_ns(&self) -> u64 {
        self.begins_ns[self.next] + self.taken_ns[self.next]
    }

    /// Returns the next moment at which the delay may begin to follow another rule; `None` if an
    /// undisturbed step would end after the run.
    pub(super) fn change_ns(&self) -> Option<u64> {
        let last_ns = self.to_ns.checked_sub(self.step_ns)?;
        let change_ns = match self.is_inside {
            true => self.end_ns(),
            false => {
                let until_met_ns = self.left_until_beyond_ns - self.left_ns - self.step_ns;
                self.begin_ns(self.next).min(self.now_ns + until_met_ns)
            }
        };
        (self.now_ns < last_ns).then_some(change_ns.min(last_ns))
    }

    /// Moves to a later moment, which is not after the next change.
    pub(super) fn move_to(&mut self, moment_ns: u64) {
        let passed_ns = moment_ns - self.now_ns;
        self.now_ns = moment_ns;
        if !self.is_inside {
            self.left_ns += passed_ns;
        } else if moment_ns == self.end_ns() {
            self.met_ns -= self.taken_ns[self.next];
            self.next += 1;
        } else {
            return;
        }
        self.arrive();
    }

    /// Updates the state after a move to another moment.
    fn arrive(&mut self) {
        while self.taken_ns.get(self.next) == Some(&0) {
            self.next += 1;
        }
        self.is_inside = self.begins_ns.get(self.next) == Some(&self.now_ns);
        // A gap is part of the step if it begins before the step has had all of its CPU time. In
        // free time, a gap that begins exactly at the end of the step is also part of the step.
        let had_ns = self.left_ns + self.step_ns + u64::from(!self.is_inside);
        while self.left_until_beyond_ns < had_ns {
            let taken_ns = self.taken_ns[self.beyond];
            self.met_ns += taken_ns;
            let end_ns = self.begins_ns[self.beyond] + taken_ns;
            self.left_until_beyond_ns += self.begin_ns(self.beyond + 1) - end_ns;
            self.beyond += 1;
        }
    }

    /// Returns the delay of a step that begins now, in nanoseconds.
    pub(super) fn delay_ns(&self) -> u64 {
        match self.is_inside {
            true => self.met_ns - (self.now_ns - self.begins_ns[self.next]),
            false => self.met_ns,
        }
    }

    /// Returns the time at which the current gap began; `None` if `now_ns` is in no gap.
    pub(super) fn in_gap_since_ns(&self) -> Option<u64> {
        self.is_inside.then(|| self.begins_ns[self.next])
    }
}
