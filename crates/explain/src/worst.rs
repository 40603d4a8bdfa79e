//! Keeps the longest gaps of a run, and the first that reached the stop limit.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::budget::Budget;

/// A budget in the order of its length; of equals the earlier ranks higher.
#[derive(Debug, PartialEq, Eq)]
struct Ranked(Budget);

type Rank = (u64, Reverse<u64>, Reverse<u32>);

fn rank(budget: &Budget) -> Rank {
    (
        budget.dur_ns,
        Reverse(budget.start_mono_ns),
        Reverse(budget.cpu),
    )
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        rank(&self.0).cmp(&rank(&other.0))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
pub(crate) struct Worst {
    keep: usize,
    longest: BinaryHeap<Reverse<Ranked>>,
    stop_ns: Option<u64>,
    stopped_by: Option<Budget>,
}

impl Worst {
    pub(crate) fn new(keep: usize, stop_ns: Option<u64>) -> Self {
        Self {
            keep,
            longest: BinaryHeap::new(),
            stop_ns,
            stopped_by: None,
        }
    }

    pub(crate) fn see(&mut self, budget: &Budget) {
        if self.stop_ns.is_some_and(|stop_ns| budget.dur_ns >= stop_ns) {
            let begin = |budget: &Budget| (budget.start_mono_ns, budget.cpu);
            if self
                .stopped_by
                .as_ref()
                .is_none_or(|first| begin(budget) < begin(first))
            {
                self.stopped_by = Some(budget.clone());
            }
        }
        if self.longest.len() < self.keep {
            self.longest.push(Reverse(Ranked(budget.clone())));
        } else if let Some(mut shortest) = self.longest.peek_mut()
            && rank(budget) > rank(&shortest.0.0)
        {
            shortest.0.0.clone_from(budget);
        }
    }

    /// The longest gap.
    pub(crate) fn longest(&self) -> Option<&Budget> {
        let longest = self.longest.iter().map(|Reverse(ranked)| ranked).max();
        longest.map(|ranked| &ranked.0)
    }

    /// The longest gaps, longest first, and the earliest at or above the limit.
    pub(crate) fn into_parts(self) -> (Vec<Budget>, Option<Budget>) {
        let longest = self
            .longest
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(ranked)| ranked.0);
        (longest.collect(), self.stopped_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_longest_and_the_earlier_of_equals() {
        let mut worst = Worst::new(2, Some(7));
        for (start_mono_ns, dur_ns) in [(50, 5), (10, 7), (40, 9), (30, 7), (5, 1), (2, 7)] {
            worst.see(&Budget {
                start_mono_ns,
                dur_ns,
                ..Budget::default()
            });
        }
        assert_eq!(worst.longest().map(|budget| budget.start_mono_ns), Some(40));
        let (longest, stopped_by) = worst.into_parts();
        let starts: Vec<u64> = longest.iter().map(|budget| budget.start_mono_ns).collect();
        assert_eq!(starts, [40, 2]);
        assert_eq!(stopped_by.unwrap().start_mono_ns, 2);
    }

    #[test]
    fn none_asked_none_kept() {
        let mut worst = Worst::new(0, None);
        worst.see(&Budget {
            dur_ns: 5,
            ..Budget::default()
        });
        assert_eq!(worst.into_parts(), (vec![], None));
    }
}
