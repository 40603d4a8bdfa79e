//! Distribution of a task's wake-up latencies over a run.

use serde::Serialize;

use crate::lengths::{Lengths, lowest};

/// Maximum number of waits that one latency stands for. Only a damaged stream has more waits.
const MAX_WAITS: u64 = 1_000_000;

/// Number of pages of distributions ([`Lengths`]) for corrected waits before the first wake-up, 150
/// bytes each. Each wake-up adds one page. A CPU that was a million periods late needs 700 pages.
const FIRST_PAGES: usize = 1 << 16;

/// Number of pages that are left.
#[derive(Debug)]
pub(crate) struct Room(usize);

impl Default for Room {
    fn default() -> Room {
        Room(FIRST_PAGES)
    }
}

impl Room {
    fn has(&self, pages: usize) -> bool {
        self.0 >= pages
    }

    fn take(&mut self, pages: usize) {
        self.0 = (self.0 + 1).saturating_sub(pages);
    }
}

/// Latencies in nanoseconds. Percentiles are exact to three significant digits, other figures to
/// the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LatencyFigures {
    /// Number of latencies.
    pub count: u64,
    /// Minimum latency.
    pub min_ns: u64,
    /// Mean latency, rounded down.
    pub mean_ns: u64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of the latencies.
    pub p99_ns: u64,
    /// 99.9th percentile of the latencies.
    pub p999_ns: u64,
    /// Maximum latency.
    pub max_ns: u64,
}

/// Distribution of the latencies in one context.
#[derive(Debug)]
pub(crate) struct Distribution {
    lengths: Lengths,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Distribution {
    pub(crate) fn new() -> Distribution {
        Distribution {
            lengths: Lengths::default(),
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
        }
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.lengths.record(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
    }

    /// Records a latency and the waits that would have followed at a fixed rate: one wait for each
    /// period that passed, each wait one period shorter than the one before. If these waits do not
    /// fit in `room`, records only the latency itself and returns `false`.
    pub(crate) fn record_corrected(&mut self, ns: u64, period_ns: u64, room: &mut Room) -> bool {
        let period_ns = period_ns.max(1);
        let waits = (ns.saturating_sub(1) / period_ns).min(MAX_WAITS);
        let shortest_ns = ns - waits * period_ns;
        let before = self.lengths.pages();
        let fits = room.has(Lengths::pages_between(shortest_ns, ns));
        self.max_ns = self.max_ns.max(ns);
        let shortest_ns = if fits { shortest_ns } else { ns };
        self.min_ns = self.min_ns.min(shortest_ns);
        // Records all waits of one bucket at once.
        let mut longest_ns = ns;
        loop {
            let least_ns = shortest_ns.max(lowest(longest_ns));
            let shorter = (longest_ns - least_ns) / period_ns;
            self.lengths.record_n(longest_ns, shorter + 1);
            let (first, last) = (longest_ns, longest_ns - shorter * period_ns);
            self.sum_ns += u128::from(shorter + 1) * (u128::from(first) + u128::from(last)) / 2;
            if last == shortest_ns {
                break;
            }
            longest_ns = last - period_ns;
        }
        room.take(self.lengths.pages() - before);
        fits
    }

    /// Returns the figures; `None` without latencies.
    pub(crate) fn figures(&self) -> Option<LatencyFigures> {
        let count = self.lengths.count();
        if count == 0 {
            return None;
        }
        // The edges of a bucket may lie beyond the latencies in the bucket.
        let within = |ns: u64| ns.clamp(self.min_ns, self.max_ns);
        let [p50_ns, p99_ns, p999_ns] = self.lengths.at_quantiles([0.5, 0.99, 0.999]).map(within);
        Some(LatencyFigures {
            count,
            min_ns: self.min_ns,
            mean_ns: u64::try_from(self.sum_ns / u128::from(count)).unwrap_or(u64::MAX),
            p50_ns,
            p99_ns,
            p999_ns,
            max_ns: self.max_ns,
        })
    }

    /// Returns the non-empty buckets, ascending: upper edge in nanoseconds, and number of
    /// latencies.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        self.lengths.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corrected(latencies: &[u64], period_ns: u64) -> Distribution {
        let mut corrected = Distribution::new();
        for ns in latencies {
            assert!(corrected.record_corrected(*ns, period_ns, &mut Room::default()));
        }
        corrected
    }

    #[test]
    fn a_long_wait_stands_for_all_that_would_have_waited() {
        let figures = corrected(&[350, 20, 100], 100).figures().unwrap();
        assert_eq!(figures.count, 6, "350 250 150 50 20 100");
        assert_eq!((figures.min_ns, figures.max_ns), (20, 350));
        assert_eq!(figures.mean_ns, 920 / 6);
    }

    #[test]
    fn waits_of_one_bucket_are_recorded_as_if_one_by_one() {
        for (ns, period_ns) in [
            (0, 7),
            (1, 1),
            (9_999, 1),
            (5_000_000, 333),
            (1 << 40, 1 << 22),
        ] {
            let mut each = Distribution::new();
            let waits = ns.max(1) - 1;
            (0..=waits / period_ns).for_each(|periods| each.record(ns - periods * period_ns));
            let at_once = corrected(&[ns], period_ns);
            assert_eq!(at_once.figures(), each.figures(), "{ns} {period_ns}");
            assert_eq!(at_once.counts(), each.counts(), "{ns} {period_ns}");
        }
    }

    #[test]
    fn waits_without_end_find_no_room() {
        let mut room = Room::default();
        let mut late = 0;
        // Each CPU is a million periods late once.
        for _ in 0..8_192 {
            let mut corrected = Distribution::new();
            late += u32::from(!corrected.record_corrected(1 << 40, 1 << 21, &mut room));
            assert!(corrected.lengths.pages() <= 1_400);
        }
        assert!((8_000..8_192).contains(&late), "{late}");
        let mut one = Distribution::new();
        assert!(!one.record_corrected(u64::MAX, 1, &mut Room(0)));
        let figures = one.figures().unwrap();
        assert_eq!((figures.count, figures.min_ns), (1, u64::MAX));
    }

    #[test]
    fn nothing_has_no_figures() {
        assert_eq!(Distribution::new().figures(), None);
    }
}
