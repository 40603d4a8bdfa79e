//! Number of waits by length. The bounds include those of Prometheus' classic and native
//! histograms.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// LENGTH_BOUNDS of `bpf/lengths.h`.
pub(crate) const BOUNDS: usize = 64;
/// Bounds of the classic histogram, in ns.
pub const CLASSIC_NS: [u64; 13] = [
    1_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    5_000_000,
    20_000_000,
    100_000_000,
    1_000_000_000,
];

/// Schema of the native histogram: its bounds are 2^(i / 2^SCHEMA) seconds (Prometheus, "Native
/// Histograms", 2023).
pub const SCHEMA: i8 = 1;
/// Indexes of the native histogram's bounds, which go from 0.95 us to 32 s.
const NATIVE: std::ops::RangeInclusive<i32> = -40..=10;
/// Number of bounds that are in both histograms: 1 s.
const SHARED: usize = 1;

const _: () = assert!(
    CLASSIC_NS.len() + (*NATIVE.end() - *NATIVE.start()) as usize + 2 - SHARED == BOUNDS,
    "each bound has its place, and above all is one that nothing exceeds"
);

/// Returns the largest whole number of ns that is in the native bucket with this index.
fn native_ns(index: i32) -> u64 {
    (f64::from(index) / f64::from(1 << SCHEMA))
        .exp2()
        .mul_add(1e9, 0.0) as u64
}

/// Returns the bounds of both histograms in ns, ascending.
pub(crate) fn bounds() -> &'static [u64; BOUNDS] {
    static ALL: LazyLock<[u64; BOUNDS]> = LazyLock::new(|| {
        let all = CLASSIC_NS.into_iter().chain(NATIVE.map(native_ns));
        let all: BTreeSet<u64> = all.collect();
        let mut bounds = [u64::MAX; BOUNDS];
        for (place, bound) in bounds.iter_mut().zip(all) {
            *place = bound;
        }
        bounds
    });
    &ALL
}

/// Number of finished waits by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitLengths {
    counts: [u64; BOUNDS],
}

impl WaitLengths {
    /// Creates counts from the values that the programs counted.
    pub(crate) fn new(counts: [u64; BOUNDS]) -> WaitLengths {
        WaitLengths { counts }
    }

    /// Returns counts that are all 0.
    pub fn none() -> WaitLengths {
        WaitLengths::new([0; BOUNDS])
    }

    /// Returns the number of all waits.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the number of waits of `ns` or less. The number is exact if `ns` is a bound of one
    /// of the histograms.
    pub fn up_to(&self, ns: u64) -> u64 {
        let within = bounds().partition_point(|bound| *bound <= ns);
        self.counts[..within].iter().sum()
    }

    /// Returns the index and count of each native bucket that is not empty. Bucket `i` has the
    /// lengths above 2^((i - 1) / 2) s, up to 2^(i / 2) s. Lengths below the first bound are in the
    /// first bucket. Lengths above the last bound are in the bucket after the last bound.
    pub fn native(&self) -> Vec<(i32, u64)> {
        let mut below = 0;
        let mut buckets: Vec<(i32, u64)> = NATIVE
            .map(|index| {
                let until = self.up_to(native_ns(index));
                let count = until - below;
                below = until;
                (index, count)
            })
            .collect();
        buckets.push((NATIVE.end() + 1, self.count() - below));
        buckets.retain(|(_, count)| *count > 0);
        buckets
    }

    /// Returns the number of waits between each two adjacent bounds, with the upper bound in ns.
    /// The upper bound is `None` above all bounds. Empty intervals are left out.
    pub fn by_bound(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let counted = bounds().iter().zip(self.counts);
        let counted = counted.map(|(bound, count)| ((*bound != u64::MAX).then_some(*bound), count));
        counted.filter(|(_, count)| *count > 0)
    }

    /// Adds the counts of other waits.
    pub fn add(&mut self, more: &WaitLengths) {
        for (count, more) in self.counts.iter_mut().zip(more.counts) {
            *count += more;
        }
    }

    /// Returns the counts of the waits since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &WaitLengths) -> WaitLengths {
        let mut counts = self.counts;
        for (count, earlier) in counts.iter_mut().zip(earlier.counts) {
            *count = count.saturating_sub(earlier);
        }
        WaitLengths { counts }
    }
}

/// Counts waits with these lengths in ns. Each wait counts for the first bound that is not smaller.
impl FromIterator<u64> for WaitLengths {
    fn from_iter<T: IntoIterator<Item = u64>>(lengths: T) -> WaitLengths {
        let mut counts = [0; BOUNDS];
        for ns in lengths {
            counts[bounds().partition_point(|bound| *bound < ns)] += 1;
        }
        WaitLengths { counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_ascend_and_the_last_one_is_above_all() {
        let bounds = bounds();
        assert!(bounds.is_sorted_by(|one, other| one < other), "{bounds:?}");
        assert_eq!(bounds[BOUNDS - 1], u64::MAX);
        assert_eq!(native_ns(0), 1_000_000_000);
        assert_eq!((native_ns(-40), native_ns(-2)), (953, 500_000_000));
        assert_eq!(native_ns(1), 1_414_213_562);
    }

    #[test]
    fn each_wait_is_in_one_bucket_of_either_kind() {
        let of = |ns: u64| WaitLengths::from_iter([ns]);
        let cases = [
            (0, -40),
            (953, -40),
            (954, -39),
            (1_000_000_000, 0),
            (1_000_000_001, 1),
            (u64::MAX, 11),
        ];
        for (ns, index) in cases {
            assert_eq!(of(ns).native(), [(index, 1)], "{ns}");
        }
        assert_eq!(of(20_000).up_to(20_000), 1);
        assert_eq!(of(20_001).up_to(20_000), 0);
    }
}
