//! Time of a run for which nobody looked at the CPU: what was taken then is in no gap.
//!
//! The one who polls looks at nothing while it writes a gap down. For how long it did is counted, and the counters
//! are read now and then: between two readings nobody knows when it was. So a window may have had all of
//! what went by unseen in each stretch that it touches.

use std::sync::Arc;

use crate::supply::worst_window;
use crate::taken::Taken;

/// Stretches, one after the other, with how much of each went by unseen.
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
        let located = Taken::new((from_ns, to_ns), stretches, Some(unseen_ns));
        Unseen {
            anywhere_ns: in_all_ns.saturating_sub(located.total_ns()),
            located,
        }
    }
}

/// What went by unseen in a run.
#[derive(Debug, Clone)]
pub struct Unseen<'a> {
    located: Taken<'a>,
    /// Of this nobody knows in which stretch it was.
    anywhere_ns: u64,
}

impl Unseen<'_> {
    /// All of it, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.located.total_ns() + self.anywhere_ns
    }

    /// No window of this length had more of it, nanoseconds. It is looked up for the next power of two: so
    /// it is the same for many lengths, and a search for a length comes to its end.
    pub fn at_most_ns(&self, length_ns: u64) -> u64 {
        let span_ns = self.located.span_ns();
        let longer_ns = length_ns
            .checked_next_power_of_two()
            .map_or(span_ns, |it| it.min(span_ns));
        let located_ns = worst_window(&self.located, longer_ns).map_or(0, |it| it.taken_ns);
        (located_ns + self.anywhere_ns).min(length_ns)
    }

    /// What is located of it, as if it had been taken.
    pub(crate) fn located(&self) -> &Taken<'_> {
        &self.located
    }

    /// Of this nobody knows in which stretch it was, nanoseconds.
    pub(crate) fn anywhere_ns(&self) -> u64 {
        self.anywhere_ns
    }
}
