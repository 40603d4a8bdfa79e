//! Queue of gaps, wake-ups and exits that have not ended, or whose final time is not known yet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Item with a start and an end on one clock.
pub(crate) trait Lasting {
    fn begin(&self) -> u64;
    fn end(&self) -> u64;
}

/// Waiting items. A pass visits only items that have arrived since the last pass and items that it
/// takes, not the items that continue to wait. A stream may have any number of passes and of
/// waiting items.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    /// Items that have arrived since the last pass.
    arrived: Vec<T>,
    /// Items that earlier passes left, by end. A number distinguishes items that end together.
    left: BTreeMap<(u64, u64), T>,
    numbers: u64,
    /// Start and end of each waiting item, with the earliest start on top. Entries below the top
    /// may belong to items that were taken.
    begins: BinaryHeap<Reverse<(u64, u64)>>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        Waiting {
            arrived: Vec::new(),
            left: BTreeMap::new(),
            numbers: 0,
            begins: BinaryHeap::new(),
        }
    }
}

impl<T: Lasting> Waiting<T> {
    pub(crate) fn push(&mut self, item: T) {
        self.arrived.push(item);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.left.is_empty()
    }

    /// Takes the items that are due, each with the time of its end. The items are ordered by start,
    /// then end. `due_at` returns the time of an end if this time is final. If an end is due, every
    /// earlier end is due too, and a due end stays due.
    pub(crate) fn take(&mut self, due_at: impl Fn(u64) -> Option<u64>) -> Vec<(T, u64)> {
        let mut due = Vec::with_capacity(self.arrived.len());
        while let Some(first) = self.left.first_entry()
            && let Some(at) = due_at(first.key().0)
        {
            due.push((first.remove(), at));
        }
        for item in self.arrived.drain(..) {
            match due_at(item.end()) {
                Some(at) => due.push((item, at)),
                None => {
                    self.numbers += 1;
                    self.begins.push(Reverse((item.begin(), item.end())));
                    self.left.insert((item.end(), self.numbers), item);
                }
            }
        }
        while let Some(Reverse((_, end))) = self.begins.peek()
            && due_at(*end).is_some()
        {
            self.begins.pop();
        }
        due.sort_by_key(|(item, _)| (item.begin(), item.end()));
        due
    }

    /// Returns the earliest start of the items that the last pass left.
    pub(crate) fn first_begin(&self) -> Option<u64> {
        self.begins.peek().map(|Reverse((begin, _))| *begin)
    }

    /// Returns the end times of the items that [`Self::take`] would take.
    pub(crate) fn due(
        &self,
        due_at: impl Fn(u64) -> Option<u64> + Copy,
    ) -> impl Iterator<Item = u64> {
        let left = self.left.keys().map_while(move |(end, _)| due_at(*end));
        let arrived = self.arrived.iter();
        left.chain(arrived.filter_map(move |item| due_at(item.end())))
    }

    /// Forgets the items that end after `end`.
    pub(crate) fn forget_after(&mut self, end: u64) {
        self.arrived.retain(|item| item.end() <= end);
        self.left.retain(|(its, _), _| *its <= end);
        self.begins.retain(|Reverse((_, its))| *its <= end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Lasting for (u64, u64) {
        fn begin(&self) -> u64 {
            self.0
        }

        fn end(&self) -> u64 {
            self.1
        }
    }

    fn by(most: u64) -> impl Fn(u64) -> Option<u64> + Copy {
        move |end| (end <= most).then_some(end)
    }

    #[test]
    fn what_is_over_is_taken_in_the_order_of_begins() {
        let mut waiting = Waiting::default();
        for item in [(5, 9), (1, 50), (7, 8), (2, 30), (2, 30)] {
            waiting.push(item);
        }
        let items = |taken: Vec<((u64, u64), u64)>| -> Vec<(u64, u64)> {
            taken.into_iter().map(|(item, _)| item).collect()
        };
        assert_eq!(items(waiting.take(by(10))), [(5, 9), (7, 8)]);
        assert_eq!(waiting.first_begin(), Some(1));
        waiting.push((3, 40));
        assert_eq!(waiting.due(by(40)).collect::<Vec<_>>(), [30, 30, 40]);
        assert_eq!(items(waiting.take(by(40))), [(2, 30), (2, 30), (3, 40)]);
        assert_eq!(waiting.first_begin(), Some(1));
        waiting.push((60, 70));
        waiting.forget_after(60);
        assert_eq!(items(waiting.take(by(100))), [(1, 50)]);
        assert!(waiting.is_empty() && waiting.first_begin().is_none());
    }
}
