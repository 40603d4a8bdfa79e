//! Distribution of lengths, exact to three significant digits. Memory grows with the number of
//! distinct lengths, so a distribution of few lengths is small.

use std::collections::BTreeMap;

/// Number of bits up to which each length has its own bucket. For more bits, a bucket is at most a
/// 1,024th of the power of two below it, as in HdrHistogram with three significant digits.
const EXACT_BITS: u32 = 11;
/// Number of buckets that are allocated together, as one page.
const PAGE: u64 = 16;

/// Number of lengths by bucket. Buckets lie on pages; a page is allocated with its first length.
#[derive(Debug, Default)]
pub struct Lengths {
    pages: BTreeMap<u16, Box<[u64; PAGE as usize]>>,
    count: u64,
}

impl Lengths {
    /// Records a length once.
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Records a length `count` times.
    pub fn record_n(&mut self, ns: u64, count: u64) {
        let bucket = bucket(ns);
        let page = self.pages.entry(page(bucket)).or_default();
        page[(bucket % PAGE) as usize] += count;
        self.count += count;
    }

    /// Returns the number of recorded lengths.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of allocated pages.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the maximum number of pages for lengths from `from_ns` to `to_ns`.
    pub(crate) fn pages_between(from_ns: u64, to_ns: u64) -> usize {
        usize::from(page(bucket(to_ns)).saturating_sub(page(bucket(from_ns)))) + 1
    }

    /// Returns the non-empty buckets, ascending: upper edge in nanoseconds, and number of lengths.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        self.recorded().collect()
    }

    fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        let buckets = self.pages.iter().flat_map(|(page, counts)| {
            let first = u64::from(*page) * PAGE;
            (first..).zip(counts.iter().copied())
        });
        let recorded = buckets.filter(|(_, count)| *count > 0);
        recorded.map(|(bucket, count)| (highest(bucket), count))
    }

    /// Returns the number of lengths above `ns`, except for lengths in the same bucket as `ns`.
    pub fn above(&self, ns: u64) -> u64 {
        let longer = self.recorded().filter(|(edge_ns, _)| lowest(*edge_ns) > ns);
        longer.map(|(_, count)| count).sum()
    }

    /// Returns quantiles in nanoseconds: for each given part (0 to 1, ascending), the length that
    /// this part of all lengths does not exceed; 0 without lengths.
    pub fn at_quantiles<const N: usize>(&self, quantiles: [f64; N]) -> [u64; N] {
        let mut recorded = self.recorded();
        let (mut length_ns, mut seen) = (0, 0);
        quantiles.map(|quantile| {
            let wanted = ((quantile * self.count as f64).ceil() as u64).max(1);
            while seen < wanted
                && let Some((edge_ns, count)) = recorded.next()
            {
                length_ns = edge_ns;
                seen += count;
            }
            length_ns
        })
    }
}

/// Returns the shortest length in the same bucket as `ns`.
pub(crate) fn lowest(ns: u64) -> u64 {
    let bits = dropped_bits(ns);
    ns >> bits << bits
}

/// Returns the number of low bits of a length that the histogram drops.
fn dropped_bits(ns: u64) -> u32 {
    (u64::BITS - ns.leading_zeros()).saturating_sub(EXACT_BITS)
}

/// Returns the index of the bucket. The buckets of a power of two follow the buckets of the next
/// lower power.
fn bucket(ns: u64) -> u64 {
    let bits = dropped_bits(ns);
    (u64::from(bits) << (EXACT_BITS - 1)) + (ns >> bits)
}

/// Returns the longest length in a bucket.
fn highest(bucket: u64) -> u64 {
    let half = EXACT_BITS - 1;
    let bits = (bucket >> half).saturating_sub(1) as u32;
    let top = bucket - (u64::from(bits) << half);
    (top << bits) | ((1 << bits) - 1)
}

/// Returns the page of a bucket. The lengths in a u64 have 56,320 buckets.
fn page(bucket: u64) -> u16 {
    (bucket / PAGE) as u16
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn any_length_fits() {
        let mut lengths = Lengths::default();
        for ns in [0, 1, 2, 3_000_000, u64::MAX - 1, u64::MAX] {
            lengths.record(ns);
        }
        assert_eq!(lengths.count(), 6);
        let [half, most, all] = lengths.at_quantiles([0.5, 0.66, 1.0]);
        assert_eq!(half, 2);
        assert!(most.abs_diff(3_000_000) < 3000);
        assert!(all >= u64::MAX - 1);
        assert_eq!(Lengths::default().at_quantiles([0.5]), [0]);
    }

    proptest! {
        /// Compares with HdrHistogram by Gil Tene, which has the same buckets. (The edge of
        /// HdrHistogram's uppermost bucket is too low by one.)
        #[test]
        fn buckets_and_quantiles_are_those_of_hdr_histogram(
            lengths in prop::collection::vec((any::<u64>(), 1u32..64, 1u64..5), 1..300),
        ) {
            let mut ours = Lengths::default();
            let mut peer = Histogram::<u64>::new(3).unwrap();
            for (ns, shift, count) in lengths {
                let ns = ns >> shift;
                ours.record_n(ns, count);
                peer.record_n(ns, count).unwrap();
                prop_assert!(lowest(ns) <= ns && bucket(lowest(ns)) == bucket(ns));
                prop_assert!(lowest(ns) == 0 || bucket(lowest(ns) - 1) == bucket(ns) - 1);
            }
            let reported = peer.iter_recorded();
            let reported = reported.map(|it| (it.value_iterated_to(), it.count_at_value()));
            prop_assert_eq!(ours.counts(), reported.collect::<Vec<_>>());
            prop_assert_eq!(ours.count(), peer.len());
            let asked = [0.01, 0.5, 0.9, 0.99, 0.999, 1.0];
            let reported: Vec<u64> = peer.value_at_quantiles(asked).collect();
            prop_assert_eq!(ours.at_quantiles(asked).to_vec(), reported);
        }
    }

    #[test]
    fn what_has_seen_little_is_small() {
        let mut lengths = Lengths::default();
        for ns in [3, 1_000_000, u64::MAX] {
            lengths.record_n(ns, 1_000_000_000);
        }
        assert_eq!(lengths.pages(), 3);
        assert_eq!(Lengths::pages_between(0, u64::MAX), 56_320 / PAGE as usize);
    }
}
