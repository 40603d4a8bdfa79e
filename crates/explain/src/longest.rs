//! Keeps the items with the highest ranks.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Maximum number of kept items. The command line accepts no more, but a recording's header may ask
/// for any number.
pub const MOST_LISTED: usize = 1 << 16;

/// Set of the items with the highest ranks so far, at most `keep` items. Ranks are distinct, so the
/// order of arrival does not matter.
#[derive(Debug)]
pub struct Longest<R: Ord, T> {
    keep: usize,
    kept: BinaryHeap<Reverse<Ranked<R, T>>>,
}

#[derive(Debug)]
struct Ranked<R, T> {
    rank: R,
    value: T,
}

impl<R: Ord, T> PartialEq for Ranked<R, T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<R: Ord, T> Eq for Ranked<R, T> {}

impl<R: Ord, T> Ord for Ranked<R, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<R: Ord, T> PartialOrd for Ranked<R, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Ord, T> Longest<R, T> {
    /// Creates an empty set for at most `keep` items, and for at most [`MOST_LISTED`].
    pub fn new(keep: usize) -> Self {
        Self {
            keep: keep.min(MOST_LISTED),
            kept: BinaryHeap::new(),
        }
    }

    /// Returns whether an item of this rank would be kept now.
    pub fn wants(&self, rank: &R) -> bool {
        let lowest = self.kept.peek().map(|Reverse(lowest)| &lowest.rank);
        self.kept.len() < self.keep || lowest.is_some_and(|lowest| rank > lowest)
    }

    /// Keeps the item that `make` returns, if its rank is high enough.
    pub fn see(&mut self, rank: R, make: impl FnOnce() -> T) {
        if !self.wants(&rank) {
            return;
        }
        if self.kept.len() == self.keep {
            self.kept.pop();
        }
        let value = make();
        self.kept.push(Reverse(Ranked { rank, value }));
    }

    /// Returns the item of the highest rank.
    pub fn first(&self) -> Option<&T> {
        let all = self.kept.iter().map(|Reverse(ranked)| ranked);
        all.max().map(|ranked| &ranked.value)
    }

    /// Returns the kept items, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().map(|Reverse(ranked)| &ranked.value)
    }

    /// Returns the kept items, the highest first.
    pub fn into_vec(self) -> Vec<T> {
        let sorted = self.kept.into_sorted_vec().into_iter();
        sorted.map(|Reverse(ranked)| ranked.value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_highest() {
        let mut longest = Longest::new(2);
        for rank in [3, 9, 1, 7] {
            longest.see(rank, || rank * 10);
        }
        assert!(longest.wants(&8) && !longest.wants(&7));
        assert_eq!(longest.first(), Some(&90));
        assert_eq!(longest.into_vec(), [90, 70]);
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let mut longest = Longest::new(usize::MAX);
        (0..MOST_LISTED + 9).for_each(|rank| longest.see(rank, || ()));
        assert_eq!(longest.into_vec().len(), MOST_LISTED);
    }

    #[test]
    fn none_asked_none_kept() {
        let mut longest = Longest::new(0);
        longest.see(5, || -> u8 { unreachable!("nobody asked") });
        assert_eq!(longest.first(), None);
    }
}
