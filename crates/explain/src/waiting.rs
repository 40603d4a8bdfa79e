//! What waits until it is certain: gaps, wake-ups and exits that are not over, or have no place on the clock yet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// From when to when something lasted, on one clock.
pub(crate) trait Lasting {
    fn begin(&self) -> u64;
    fn end(&self) -> u64;
}

/// A pass costs what arrived and what it takes, not what goes on waiting: a stream may have any number of
/// passes, and leave any number waiting.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    /// Since the last pass.
    arrived: Vec<T>,
    /// What passes left, by its end; a number distinguishes those that end together.
    left: BTreeMap<(u64, u64), T>,
    numbers: u64,
    /// Begin and end of each of them, the first begin on top. Those below may be gone.
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

    /// Takes what is due, in the order of begins, then ends. `due_at` says when an end was, if that is certain:
    /// of an end that is due, every earlier one is, and it is due from then on.
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

    /// The first begin of what the last pass left.
    pub(crate) fn first_begin(&self) -> Option<u64> {
        self.begins.peek().map(|Reverse((begin, _))| *begin)
    }

    /// When those were over that [`Self::take`] would take.
    pub(crate) fn due(
        &self,
        due_at: impl Fn(u64) -> Option<u64> + Copy,
    ) -> impl Iterator<Item = u64> {
        let left = self.left.keys().map_while(move |(end, _)| due_at(*end));
        let arrived = self.arrived.iter();
        left.chain(arrived.filter_map(move |item| due_at(item.end())))
    }

    /// Forgets what ended later.
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
