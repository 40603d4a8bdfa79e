//! Histogram with buckets of equal width, as rtla prints it.

/// Numbers of lengths in buckets of equal width, and number of lengths beyond the last bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearHistogram {
    bucket_ns: u64,
    counts: Vec<u64>,
    overflow: u64,
    sum_ns: u64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
}

impl LinearHistogram {
    /// Creates an empty histogram with `entries` buckets of `bucket_ns` nanoseconds; a width of 0
    /// counts as 1.
    pub fn new(bucket_ns: u64, entries: usize) -> LinearHistogram {
        LinearHistogram {
            bucket_ns: bucket_ns.max(1),
            counts: vec![0; entries],
            overflow: 0,
            sum_ns: 0,
            min_ns: None,
            max_ns: None,
        }
    }

    /// Counts one length.
    pub fn record(&mut self, ns: u64) {
        let bucket = usize::try_from(ns / self.bucket_ns).ok();
        match bucket.and_then(|bucket| self.counts.get_mut(bucket)) {
            Some(count) => *count += 1,
            None => self.overflow += 1,
        }
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.min_ns = Some(self.min_ns.map_or(ns, |min_ns| min_ns.min(ns)));
        self.max_ns = Some(self.max_ns.map_or(ns, |max_ns| max_ns.max(ns)));
    }

    /// Returns the width of a bucket in nanoseconds.
    pub fn bucket_ns(&self) -> u64 {
        self.bucket_ns
    }

    /// Returns the number of lengths in each bucket; bucket `n` starts at `n` widths.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the number of lengths beyond the last bucket.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Returns the number of all lengths.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.overflow
    }

    /// Returns the sum of all lengths in nanoseconds. The sum saturates at the maximum of a u64.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the shortest length in nanoseconds; `None` without lengths.
    pub fn min_ns(&self) -> Option<u64> {
        self.min_ns
    }

    /// Returns the longest length in nanoseconds; `None` without lengths.
    pub fn max_ns(&self) -> Option<u64> {
        self.max_ns
    }

    /// Returns the mean length in nanoseconds, rounded down; `None` without lengths.
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_begins_at_its_lower_edge() {
        let mut histogram = LinearHistogram::new(1000, 3);
        for ns in [0, 999, 1000, 2999, 3000, 90_000] {
            histogram.record(ns);
        }
        assert_eq!(histogram.counts(), [2, 1, 1]);
        assert_eq!((histogram.overflow(), histogram.count()), (2, 6));
        assert_eq!(histogram.sum_ns(), 97_998);
        assert_eq!(
            (histogram.min_ns(), histogram.max_ns()),
            (Some(0), Some(90_000))
        );
        assert_eq!(histogram.mean_ns(), Some(16_333));
    }

    #[test]
    fn nothing_has_no_mean_and_extremes_fit() {
        let mut histogram = LinearHistogram::new(0, 0);
        assert_eq!(
            (histogram.mean_ns(), histogram.min_ns(), histogram.max_ns()),
            (None, None, None)
        );
        histogram.record(u64::MAX);
        histogram.record(u64::MAX);
        assert_eq!((histogram.overflow(), histogram.sum_ns()), (2, u64::MAX));
    }
}
