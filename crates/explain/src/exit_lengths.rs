//! Distribution of exit lengths, added up over several reasons or vCPUs.

use std::collections::BTreeMap;

use crate::exits::ReasonExits;

/// Start of the last bucket. This bucket has no end, because the kernel does not distinguish longer
/// exits.
const LAST_FLOOR_NS: u64 = 7 << 29;

/// Distribution of lengths in nanoseconds. The edges of the buckets are a quarter of a power of two
/// apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExitLengths {
    counts: BTreeMap<u64, u64>,
    total_ns: u64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
}

impl ExitLengths {
    /// Adds all exits of a vCPU for one reason.
    pub fn add(&mut self, reason: &ReasonExits) {
        for &(edge_ns, count) in &reason.histogram {
            *self.counts.entry(floor_ns(edge_ns)).or_default() += count;
        }
        if reason.count > 0 {
            self.total_ns += reason.total_ns;
            let min_ns = self.min_ns.unwrap_or(u64::MAX);
            self.min_ns = Some(min_ns.min(reason.min_ns));
            self.max_ns = self.max_ns.max(Some(reason.max_ns));
        }
    }

    /// Returns the number of exits in the bucket that starts at `floor_ns`.
    pub fn count_from(&self, floor_ns: u64) -> u64 {
        self.counts.get(&floor_ns).copied().unwrap_or(0)
    }

    /// Returns the starts of the non-empty buckets in nanoseconds, ascending.
    pub fn floors_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.keys().copied()
    }

    /// Returns the number of exits.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the total length of all exits, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Returns the length of the shortest exit in nanoseconds; `None` without exits.
    pub fn min_ns(&self) -> Option<u64> {
        self.min_ns
    }

    /// Returns the mean length of the exits in nanoseconds; `None` without exits.
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.total_ns as f64 / count as f64)
    }

    /// Returns the length of the longest exit in nanoseconds; `None` without exits.
    pub fn max_ns(&self) -> Option<u64> {
        self.max_ns
    }
}

/// Returns the start of the bucket that contains this length, in nanoseconds.
pub fn floor_ns(length_ns: u64) -> u64 {
    let length_ns = length_ns.min(LAST_FLOOR_NS);
    length_ns - length_ns % width_ns(length_ns)
}

/// Returns the start of the bucket after the bucket that starts at `floor_ns`.
pub fn next_floor_ns(floor_ns: u64) -> u64 {
    floor_ns + width_ns(floor_ns)
}

/// Returns the width of the bucket that contains this length: a quarter of the next lower power of
/// two. Lengths below 4 ns have a bucket each.
fn width_ns(length_ns: u64) -> u64 {
    match length_ns.checked_ilog2() {
        Some(power) if power >= 2 => 1 << (power - 2),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::{ShareMap, Witnesses};

    fn reason(histogram: &[(u64, u64)], min_ns: u64, max_ns: u64) -> ReasonExits {
        let nothing = ShareMap::default();
        let none = crate::exit_shares(&nothing, true, &Witnesses::default());
        ReasonExits {
            name: "io".into(),
            code: None,
            count: histogram.iter().map(|(_, count)| count).sum(),
            heavy: Some(0),
            total_ns: 4_000,
            min_ns,
            mean_ns: 0,
            p99_ns: 0,
            max_ns,
            shares_ns: none,
            histogram: histogram.to_vec(),
        }
    }

    #[test]
    fn buckets_follow_one_another_without_holes() {
        let mut edge = 0;
        while edge < LAST_FLOOR_NS {
            let next = next_floor_ns(edge);
            assert!(next > edge);
            assert_eq!(floor_ns(next - 1), edge);
            assert_eq!(floor_ns(next), next);
            edge = next;
        }
        assert_eq!(floor_ns(1279), 1024);
        assert_eq!(
            (edge, floor_ns(10_000_000_000)),
            (LAST_FLOOR_NS, LAST_FLOOR_NS)
        );
    }

    #[test]
    fn lengths_add_up_over_reasons_although_the_last_edge_is_cut() {
        let mut lengths = ExitLengths::default();
        assert_eq!((lengths.mean_ns(), lengths.max_ns()), (None, None));
        lengths.add(&reason(&[(1279, 3), (1300, 1)], 1_100, 1_300));
        lengths.add(&reason(&[(1535, 4)], 1_400, 1_530));
        assert_eq!(lengths.floors_ns().collect::<Vec<_>>(), [1024, 1280]);
        assert_eq!((lengths.count_from(1024), lengths.count_from(1280)), (3, 5));
        assert_eq!((lengths.count(), lengths.mean_ns()), (8, Some(1000.0)));
        assert_eq!(
            (lengths.min_ns(), lengths.max_ns()),
            (Some(1_100), Some(1_530))
        );
    }
}
