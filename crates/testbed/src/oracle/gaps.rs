//! Compares the gaps that the kernel's tracer observed with the gaps that our probes imply.

use super::matching::{CommonWindow, median};
use super::trace::{OsnoiseEventKind, OsnoiseLine};

/// Start and end of a gap, nanoseconds.
pub type GapSpan = (u64, u64);

/// Comparison of gaps over one window. Our gaps are the times that activities take from the
/// observed thread. If the transition from one activity to the next takes long, one gap of the
/// kernel corresponds to two of our gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gaps {
    /// Number of gaps that the kernel observed.
    pub kernel: usize,
    /// Number of gaps that we reported.
    pub ours: usize,
    /// Gaps of the kernel that do not overlap any of our gaps.
    pub missed: Vec<GapSpan>,
    /// Our gaps that do not overlap any gap of the kernel.
    pub surplus: Vec<GapSpan>,
    /// Median length of the kernel's gaps, nanoseconds; `None` without gaps.
    pub kernel_median_ns: Option<u64>,
    /// Median time of a kernel's gap that our gaps cover, nanoseconds.
    pub our_median_ns: Option<u64>,
    /// Median time of a kernel's gap that our gaps do not cover, nanoseconds. This is the time to
    /// enter and leave an activity, which no event reports.
    pub untold_median_ns: Option<u64>,
}

impl Gaps {
    /// Compares the gaps. A gap counts only if the whole gap lies in the window that both traces
    /// cover. The matching gaps of the other trace may extend beyond this window, because one gap
    /// of the kernel can correspond to two of ours.
    pub(super) fn of(kernel: &[OsnoiseLine], ours: &[OsnoiseLine]) -> Gaps {
        let samples = |lines: &[OsnoiseLine]| -> Vec<GapSpan> {
            let samples = lines
                .iter()
                .filter(|line| line.kind == OsnoiseEventKind::Sample);
            let spans = samples.map(|line| (line.start_ns, line.start_ns + line.dur_ns));
            spans.collect()
        };
        let watched = CommonWindow::by_both(kernel, ours);
        let within = |spans: &[GapSpan]| -> Vec<GapSpan> {
            let inside = |(from, to): &&GapSpan| *from >= watched.from_ns && *to <= watched.to_ns;
            spans.iter().filter(inside).copied().collect()
        };
        let (all_kernel, all_ours) = (samples(kernel), samples(ours));
        let (kernel, ours) = (within(&all_kernel), within(&all_ours));
        let shared_ns = |(from, to): &GapSpan, others: &[GapSpan]| -> u64 {
            let shared = |other: &GapSpan| to.min(&other.1).saturating_sub(*from.max(&other.0));
            others.iter().map(shared).sum()
        };
        let alone = |gaps: &[GapSpan], others: &[GapSpan]| -> Vec<GapSpan> {
            let lonely = |gap: &&GapSpan| shared_ns(gap, others) == 0;
            gaps.iter().filter(lonely).copied().collect()
        };
        let reported = |gap: &GapSpan| shared_ns(gap, &all_ours);
        Gaps {
            kernel: kernel.len(),
            ours: ours.len(),
            missed: alone(&kernel, &all_ours),
            surplus: alone(&ours, &all_kernel),
            kernel_median_ns: median(kernel.iter().map(|(from, to)| to - from)),
            our_median_ns: median(kernel.iter().map(reported)),
            untold_median_ns: median(kernel.iter().map(|gap| gap.1 - gap.0 - reported(gap))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(start_ns: u64, dur_ns: u64) -> OsnoiseLine {
        OsnoiseLine {
            kind: OsnoiseEventKind::Sample,
            name: String::new(),
            at_ns: start_ns + dur_ns,
            start_ns,
            dur_ns,
        }
    }

    #[test]
    fn two_of_ours_make_one_of_the_kernels_and_strays_are_counted() {
        let kernel = [gap(90, 5), gap(100, 50), gap(500, 20), gap(910, 5)];
        let ours = [
            gap(90, 5),
            gap(110, 10),
            gap(130, 15),
            gap(900, 5),
            gap(911, 4),
        ];
        let expected = Gaps {
            kernel: 4,
            ours: 5,
            missed: vec![(500, 520)],
            surplus: vec![(900, 905)],
            kernel_median_ns: Some(5),
            our_median_ns: Some(4),
            untold_median_ns: Some(1),
        };
        assert_eq!(Gaps::of(&kernel, &ours), expected);
    }

    #[test]
    fn what_one_alone_watched_is_nobodys_miss() {
        // Our trace begins during the kernel's first gap, and ends after the kernel's last gap.
        let kernel = [gap(10, 20), gap(100, 50), gap(200, 8)];
        let ours = [gap(25, 5), gap(101, 48), gap(201, 6), gap(220, 5)];
        let found = Gaps::of(&kernel, &ours);
        assert_eq!((found.kernel, found.ours), (2, 3));
        assert_eq!((found.missed, found.surplus), (vec![], vec![]));
    }
}
