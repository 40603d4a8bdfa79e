//! Keeps the longest gaps or wake-ups of a run, and the first gap or wake-up that reached a limit.

use std::cmp::Reverse;

use crate::interval::Interval;
use crate::longest::Longest;

/// Rank of an interval by length. Of two equally long intervals, the earlier one ranks higher.
pub(crate) type Rank = (u64, Reverse<u64>, Reverse<u32>);

pub(crate) fn rank(interval: &Interval) -> Rank {
    let Interval {
        dur_ns,
        start_mono_ns,
        cpu,
        ..
    } = *interval;
    (dur_ns, Reverse(start_mono_ns), Reverse(cpu))
}

#[derive(Debug)]
pub(crate) struct Worst {
    longest: Longest<Rank, Interval>,
    stopped_by: Option<Interval>,
}

impl Worst {
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            longest: Longest::new(keep),
            stopped_by: None,
        }
    }

    pub(crate) fn see(&mut self, interval: &Interval) {
        if interval.hits_limit {
            let begin = |interval: &Interval| (interval.start_mono_ns, interval.cpu);
            let first = self.stopped_by.as_ref();
            if first.is_none_or(|first| begin(interval) < begin(first)) {
                self.stopped_by = Some(interval.clone());
            }
        }
        self.longest.see(rank(interval), || interval.clone());
    }

    /// Returns the longest interval.
    pub(crate) fn longest(&self) -> Option<&Interval> {
        self.longest.first()
    }

    /// Returns the longest intervals, longest first, and the earliest one that reached the limit.
    pub(crate) fn into_parts(self) -> (Vec<Interval>, Option<Interval>) {
        (self.longest.into_vec(), self.stopped_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_longest_and_the_earlier_of_equals() {
        let mut worst = Worst::new(2);
        for (start_mono_ns, dur_ns) in [(50, 5), (10, 7), (40, 9), (30, 7), (5, 1), (2, 7)] {
            worst.see(&Interval {
                start_mono_ns,
                dur_ns,
                hits_limit: dur_ns >= 7,
                ..Interval::default()
            });
        }
        assert_eq!(worst.longest().map(|it| it.start_mono_ns), Some(40));
        let (longest, stopped_by) = worst.into_parts();
        let starts: Vec<u64> = longest.iter().map(|it| it.start_mono_ns).collect();
        assert_eq!(starts, [40, 2]);
        assert_eq!(stopped_by.unwrap().start_mono_ns, 2);
    }
}
