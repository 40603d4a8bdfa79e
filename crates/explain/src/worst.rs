//! Keeps the longest gaps of a run, and the first that reached the stop limit.

use std::cmp::Reverse;

use crate::budget::Budget;
use crate::longest::Longest;

/// By its length; of equals the earlier ranks higher.
pub(crate) type Rank = (u64, Reverse<u64>, Reverse<u32>);

pub(crate) fn rank(budget: &Budget) -> Rank {
    let Budget {
        dur_ns,
        start_mono_ns,
        cpu,
        ..
    } = *budget;
    (dur_ns, Reverse(start_mono_ns), Reverse(cpu))
}

#[derive(Debug)]
pub(crate) struct Worst {
    longest: Longest<Rank, Budget>,
    stop_ns: Option<u64>,
    stopped_by: Option<Budget>,
}

impl Worst {
    pub(crate) fn new(keep: usize, stop_ns: Option<u64>) -> Self {
        Self {
            longest: Longest::new(keep),
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
        self.longest.see(rank(budget), || budget.clone());
    }

    /// The longest gap.
    pub(crate) fn longest(&self) -> Option<&Budget> {
        self.longest.first()
    }

    /// The longest gaps, longest first, and the earliest at or above the limit.
    pub(crate) fn into_parts(self) -> (Vec<Budget>, Option<Budget>) {
        (self.longest.into_vec(), self.stopped_by)
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
}
