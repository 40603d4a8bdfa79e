//! A distribution of lengths, exact to three significant digits.

use hdrhistogram::Histogram;

#[derive(Debug)]
pub(crate) struct Lengths(Histogram<u64>);

impl Lengths {
    pub(crate) fn new() -> Self {
        Self(Histogram::new(3).expect("3 significant digits are allowed"))
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.0
            .record(ns)
            .expect("the histogram grows to any u64 where usize has 64 bits");
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Upper edges in nanoseconds, ascending, of the buckets that hold any, and how many.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        let recorded = self.0.iter_recorded();
        recorded
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
            .collect()
    }

    /// The lengths in nanoseconds that these parts (0 to 1, ascending) of all do not
    /// exceed; 0 of nothing.
    pub(crate) fn at_quantiles<const N: usize>(&self, quantiles: [f64; N]) -> [u64; N] {
        let mut lengths_ns = [0; N];
        for (length_ns, found) in lengths_ns
            .iter_mut()
            .zip(self.0.value_at_quantiles(quantiles))
        {
            *length_ns = found;
        }
        lengths_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_fits() {
        let mut lengths = Lengths::new();
        for ns in [0, 1, 2, 3_000_000, u64::MAX - 1, u64::MAX] {
            lengths.record(ns);
        }
        assert_eq!(lengths.count(), 6);
        let [half, most, all] = lengths.at_quantiles([0.5, 0.66, 1.0]);
        assert_eq!(half, 2);
        assert!(most.abs_diff(3_000_000) < 3000);
        assert!(all >= u64::MAX - 1);
        assert_eq!(Lengths::new().at_quantiles([0.5]), [0]);
    }
}
