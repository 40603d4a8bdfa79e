//! How late a task was over a run: what is known exactly, and the distribution.

use serde::Serialize;

use crate::lengths::Lengths;

/// Waits that one latency may stand for: more come of a damaged stream only.
const MAX_WAITS: u64 = 1_000_000;

/// Latencies in nanoseconds; percentiles are exact to three significant digits, the rest to
/// the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LatencyFigures {
    /// How many there were.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean, rounded down.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// What 99 % do not exceed.
    pub p99_ns: u64,
    /// What 99.9 % do not exceed.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// The latencies of one context.
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
            lengths: Lengths::new(),
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

    /// Records a latency, and those of the tasks that would have waited meanwhile: one for
    /// each period that went by, each shorter by a period.
    pub(crate) fn record_corrected(&mut self, ns: u64, period_ns: u64) {
        let waits = (ns.saturating_sub(1) / period_ns.max(1)).min(MAX_WAITS);
        for periods in 0..=waits {
            self.record(ns - periods * period_ns);
        }
    }

    /// `None` of nothing.
    pub(crate) fn figures(&self) -> Option<LatencyFigures> {
        let count = self.lengths.count();
        if count == 0 {
            return None;
        }
        // A bucket's edges may lie beyond the lengths that are in it.
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

    /// Upper edges of the lengths in nanoseconds, ascending, and how many are up to there
    /// from the edge before.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        self.lengths.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_stands_for_all_that_would_have_waited() {
        let mut corrected = Distribution::new();
        corrected.record_corrected(350, 100);
        corrected.record_corrected(20, 100);
        corrected.record_corrected(100, 100);
        let figures = corrected.figures().unwrap();
        assert_eq!(figures.count, 6, "350 250 150 50 20 100");
        assert_eq!((figures.min_ns, figures.max_ns), (20, 350));
        assert_eq!(figures.mean_ns, 920 / 6);
    }

    #[test]
    fn nothing_has_no_figures() {
        assert_eq!(Distribution::new().figures(), None);
    }
}
