//! The gaps that the kernel's tracer felt beside those that follow from our witnesses.

use super::matching::{Matching, median};
use super::trace::{Kind, Line};

/// Gaps over one window. Ours are what activities leave of the observed thread: where
/// the way from one activity to the next takes long, the kernel's one gap is two of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gaps {
    /// How many the kernel felt.
    pub kernel: usize,
    /// How many we told.
    pub ours: usize,
    /// Those of the kernel that overlap none of ours.
    pub missed: usize,
    /// Ours that overlap none of the kernel's.
    pub surplus: usize,
    /// Median length of the kernel's, nanoseconds.
    pub kernel_median_ns: Option<u64>,
    /// Median of what ours have of each of the kernel's.
    pub our_median_ns: Option<u64>,
    /// Median of what ours lack of each of the kernel's: the way into an activity and
    /// out of it, of which no event tells.
    pub untold_median_ns: Option<u64>,
}

impl Gaps {
    pub(super) fn of(matching: &Matching<'_>) -> Gaps {
        let samples = |lines: &[&'_ Line]| -> Vec<(u64, u64)> {
            let samples = lines.iter().filter(|line| line.kind == Kind::Sample);
            let spans = samples.map(|line| (line.start_ns, line.start_ns + line.dur_ns));
            spans.collect()
        };
        let (kernel, ours) = (samples(&matching.kernel), samples(&matching.ours));
        let shared_ns = |(start, end): &(u64, u64), others: &[(u64, u64)]| -> u64 {
            let shared =
                |other: &(u64, u64)| end.min(&other.1).saturating_sub(*start.max(&other.0));
            others.iter().map(shared).sum()
        };
        let told_ns: Vec<u64> = kernel.iter().map(|gap| shared_ns(gap, &ours)).collect();
        let lengths = || kernel.iter().map(|(start, end)| end - start);
        let lonely = |gap: &&(u64, u64)| shared_ns(gap, &kernel) == 0;
        Gaps {
            kernel: kernel.len(),
            ours: ours.len(),
            missed: told_ns.iter().filter(|ns| **ns == 0).count(),
            surplus: ours.iter().filter(lonely).count(),
            kernel_median_ns: median(lengths()),
            our_median_ns: median(told_ns.iter().copied()),
            untold_median_ns: median(lengths().zip(&told_ns).map(|(all, told)| all - told)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_ours_make_one_of_the_kernels_and_strays_are_counted() {
        let gap = |start_ns, dur_ns| Line {
            kind: Kind::Sample,
            name: String::new(),
            at_ns: start_ns + dur_ns,
            start_ns,
            dur_ns,
        };
        let kernel = [gap(100, 50), gap(500, 20)];
        let ours = [gap(110, 10), gap(130, 15), gap(900, 5)];
        let found = Gaps::of(&Matching {
            kernel: kernel.iter().collect(),
            ours: ours.iter().collect(),
            pairs: Vec::new(),
            window_ns: 1000,
        });
        let expected = Gaps {
            kernel: 2,
            ours: 3,
            missed: 1,
            surplus: 1,
            kernel_median_ns: Some(20),
            our_median_ns: Some(0),
            untold_median_ns: Some(20),
        };
        assert_eq!(found, expected);
    }
}
