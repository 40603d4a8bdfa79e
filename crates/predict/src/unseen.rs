//! Time of a run in which the CPU was not observed. Time that was taken during this time is in no
//! gap.
//!
//! A polling thread observes nothing while it records a gap. A counter sums this unobserved time,
//! and vmnoise reads the counter now and then. Between two readings, the position of the unobserved
//! time is unknown. So a window may contain all unobserved time of each interval that the window
//! touches.

use std::sync::Arc;

use crate::supply::worst_window;
use crate::taken::TakenTime;

/// Consecutive intervals, each with its amount of unobserved time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stretches {
    begins_ns: Vec<u64>,
    lengths_ns: Vec<u64>,
    unseen_ns: Arc<Vec<u64>>,
}

impl Stretches {
    pub(crate) fn push(&mut self, from_ns: u64, to_ns: u64, unseen_ns: u64) {
        let last = self.begins_ns.last().zip(self.lengths_ns.last());
        let last_end_ns = last.map_or(0, |(begin_ns, length_ns)| begin_ns + length_ns);
        let from_ns = from_ns.max(last_end_ns);
        let length_ns = to_ns.saturating_sub(from_ns);
        self.begins_ns.push(from_ns);
        self.lengths_ns.push(length_ns);
        Arc::make_mut(&mut self.unseen_ns).push(unseen_ns.min(length_ns));
    }

    pub(crate) fn within(&self, from_ns: u64, to_ns: u64, in_all_ns: u64) -> Unseen<'_> {
        let stretches = (&*self.begins_ns, &*self.lengths_ns);
        let unseen_ns = Arc::clone(&self.unseen_ns);
        let located = TakenTime::new((from_ns, to_ns), stretches, Some(unseen_ns));
        Unseen {
            anywhere_ns: in_all_ns.saturating_sub(located.total_ns()),
            located,
        }
    }
}

/// Unobserved time of one run.
#[derive(Debug, Clone)]
pub struct Unseen<'a> {
    located: TakenTime<'a>,
    /// Unobserved time that belongs to no known interval, in nanoseconds.
    anywhere_ns: u64,
}

impl Unseen<'_> {
    /// Returns the total unobserved time, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.located.total_ns() + self.anywhere_ns
    }

    /// Returns an upper bound of the unobserved time in any window of this length, in nanoseconds.
    /// The bound is computed for the next power of two. So many lengths have the same bound, and a
    /// search for a length terminates.
    pub fn at_most_ns(&self, length_ns: u64) -> u64 {
        let span_ns = self.located.span_ns();
        let longer_ns = length_ns
            .checked_next_power_of_two()
            .map_or(span_ns, |it| it.min(span_ns));
        let located_ns = worst_window(&self.located, longer_ns).map_or(0, |it| it.taken_ns);
        (located_ns + self.anywhere_ns).min(length_ns)
    }

    /// Returns the unobserved time in known intervals, as if it had been taken.
    pub(crate) fn located(&self) -> &TakenTime<'_> {
        &self.located
    }

    /// Returns the unobserved time that belongs to no known interval, in nanoseconds.
    pub(crate) fn anywhere_ns(&self) -> u64 {
        self.anywhere_ns
    }
}
