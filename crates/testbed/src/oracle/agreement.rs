//! Measures how well two traces agree on one kind of event.

use super::matching::{Matching, median};
use super::trace::{OsnoiseEventKind, OsnoiseLine};

/// Maximum number of unpaired lines that a failure report shows.
const KEPT: usize = 10;

/// Agreement on one kind of event over one window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// Kind of event.
    pub kind: OsnoiseEventKind,
    /// Number of events that the kernel reported.
    pub kernel: usize,
    /// Number of events that we reported.
    pub ours: usize,
    /// Number of events that both traces contain with the same name and start.
    pub pairs: usize,
    /// Median duration of the kernel's paired events, nanoseconds; `None` without pairs.
    pub kernel_median_ns: Option<u64>,
    /// Median duration of our paired events, nanoseconds; `None` without pairs.
    pub our_median_ns: Option<u64>,
    /// Median difference between the two durations of a pair, nanoseconds; `None` without pairs.
    pub median_distance_ns: Option<u64>,
    /// Largest difference between the two durations of a pair, nanoseconds; `None` without pairs.
    pub max_distance_ns: Option<u64>,
    /// Our first lines that have no pair.
    pub ours_alone: Vec<OsnoiseLine>,
}

impl Agreement {
    /// Summarizes the events of this kind and their pairs.
    pub(super) fn of(kind: OsnoiseEventKind, matching: &Matching<'_>) -> Agreement {
        let count = |lines: &[&OsnoiseLine]| lines.iter().filter(|line| line.kind == kind).count();
        let pairs = || {
            matching
                .pairs
                .iter()
                .filter(|(kernel, _)| kernel.kind == kind)
        };
        let distances = || pairs().map(|(kernel, ours)| kernel.dur_ns.abs_diff(ours.dur_ns));
        let is_paired = |line: &OsnoiseLine| pairs().any(|(_, ours)| std::ptr::eq(*ours, line));
        let ours = matching.ours.iter().filter(|line| line.kind == kind);
        let alone = ours
            .filter(|line| !is_paired(line))
            .map(|line| (*line).clone());
        Agreement {
            kind,
            kernel: count(&matching.kernel),
            ours: count(&matching.ours),
            pairs: pairs().count(),
            kernel_median_ns: median(pairs().map(|(kernel, _)| kernel.dur_ns)),
            our_median_ns: median(pairs().map(|(_, ours)| ours.dur_ns)),
            median_distance_ns: median(distances()),
            max_distance_ns: distances().max(),
            ours_alone: alone.take(KEPT).collect(),
        }
    }

    /// Returns whether our number of events and the number of pairs differ from the kernel's number
    /// by at most 1 %.
    pub fn counts_agree(&self) -> bool {
        let near = |count: usize| self.kernel.abs_diff(count) * 100 <= self.kernel;
        near(self.ours) && near(self.pairs)
    }

    /// Returns whether the median difference of durations is at most 2 us, or at most 10 % of the
    /// kernel's median duration.
    pub fn durations_agree(&self) -> bool {
        const NEAR_NS: u64 = 2_000;
        let (Some(distance_ns), Some(kernel_ns)) = (self.median_distance_ns, self.kernel_median_ns)
        else {
            return self.kernel == 0;
        };
        distance_ns <= NEAR_NS.max(kernel_ns / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: Agreement = Agreement {
        kind: OsnoiseEventKind::Irq,
        kernel: 200,
        ours: 200,
        pairs: 200,
        kernel_median_ns: Some(3_000),
        our_median_ns: Some(3_000),
        median_distance_ns: Some(2_000),
        ours_alone: Vec::new(),
        max_distance_ns: Some(9_000),
    };

    #[test]
    fn one_percent_is_the_limit_of_counts() {
        let of = |ours, pairs| Agreement {
            ours,
            pairs,
            ..SAME
        };
        assert!(of(202, 198).counts_agree());
        assert!(!of(203, 200).counts_agree());
        assert!(!of(200, 197).counts_agree());
        let nothing = Agreement {
            kernel: 0,
            ..of(0, 0)
        };
        assert!(nothing.counts_agree());
        assert!(!Agreement { ours: 1, ..nothing }.counts_agree());
    }

    #[test]
    fn two_microseconds_or_a_tenth_is_the_limit_of_durations() {
        assert!(SAME.durations_agree());
        let far = Agreement {
            median_distance_ns: Some(2_001),
            ..SAME
        };
        assert!(!far.durations_agree());
        assert!(
            Agreement {
                kernel_median_ns: Some(20_010),
                ..far
            }
            .durations_agree()
        );
    }
}
