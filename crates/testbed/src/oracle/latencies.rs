//! Reads histograms of latencies in cyclictest's format, and computes the distance between two of
//! them.

use anyhow::{Context, Result, ensure};

/// Width of the buckets that are compared: cyclictest counts in microseconds.
const COMPARED_NS: usize = 1_000;

/// Latencies of the wake-ups of one run or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Width of a row, nanoseconds; at most 1,000.
    row_ns: usize,
    counts: Vec<u64>,
}

/// Comparison of runs of cyclictest with our runs. A distance is the largest difference between two
/// distribution functions, from 0 to 1, in buckets of a microsecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turns {
    /// Number of runs of each program.
    pub rounds: usize,
    /// Median latency of all wake-ups of cyclictest, nanoseconds.
    pub cyclictest_ns: usize,
    /// Median latency of all our wake-ups, nanoseconds.
    pub ours_ns: usize,
    /// Largest distance between two runs of cyclictest.
    pub own_distance: f64,
    /// Median distance between one of our runs and one run of cyclictest. The median ignores single
    /// runs whose wake-ups all coincide with the kernel's tick. This happens to both programs, and
    /// moves a quarter of the wake-ups of such a run.
    pub our_distance: f64,
    /// Largest distance between one of our runs and one run of cyclictest.
    pub our_largest: f64,
}

impl Turns {
    pub(super) fn of(theirs: &[LatencyHistogram], ours: &[LatencyHistogram]) -> Turns {
        let own = distances(theirs, theirs);
        let our = distances(theirs, ours);
        Turns {
            rounds: theirs.len(),
            cyclictest_ns: LatencyHistogram::all(theirs).median_ns(),
            ours_ns: LatencyHistogram::all(ours).median_ns(),
            own_distance: own.last().copied().unwrap_or_default(),
            our_distance: our.get(our.len() / 2).copied().unwrap_or_default(),
            our_largest: our.last().copied().unwrap_or_default(),
        }
    }
}

/// Returns the distance of each histogram in `first` to each in `second`, the smallest distance
/// first.
fn distances(first: &[LatencyHistogram], second: &[LatencyHistogram]) -> Vec<f64> {
    let of = |one| {
        second
            .iter()
            .map(move |other: &LatencyHistogram| other.distance(one))
    };
    let mut distances: Vec<f64> = first.iter().flat_map(of).collect();
    distances.sort_by(f64::total_cmp);
    distances
}

impl LatencyHistogram {
    /// Parses the rows `NUMBER COUNT` that cyclictest prints for one task, and the number of
    /// overflows.
    pub(super) fn parse(text: &str, row_ns: usize) -> Result<LatencyHistogram> {
        let is_row = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
        let mut counts = Vec::new();
        for line in text.lines().filter(is_row) {
            let (number, count) = line.split_once(' ').context("a row without count")?;
            ensure!(
                number.parse::<usize>()? == counts.len(),
                "a row is missing: {line}"
            );
            counts.push(count.trim().parse()?);
        }
        let beyond = "# Histogram Overflows: ";
        let beyond = text.lines().find_map(|line| line.strip_prefix(beyond));
        counts.push(beyond.context("no overflows")?.trim().parse()?);
        let histogram = LatencyHistogram { row_ns, counts };
        ensure!(histogram.total() > 0, "an empty histogram");
        Ok(histogram)
    }

    /// Sums the histograms of several runs.
    pub(super) fn all(runs: &[LatencyHistogram]) -> LatencyHistogram {
        let rows = runs.iter().map(|run| run.counts.len()).max().unwrap_or(0);
        let count = |row: usize| runs.iter().filter_map(|run| run.counts.get(row)).sum();
        LatencyHistogram {
            row_ns: runs.first().map_or(1, |run| run.row_ns),
            counts: (0..rows).map(count).collect(),
        }
    }

    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn median_ns(&self) -> usize {
        let mut below = 0;
        let half = self.total() / 2;
        let reaches = |count: &u64| {
            below += count;
            below > half
        };
        self.counts.iter().position(reaches).unwrap_or(0) * self.row_ns
    }

    /// Returns this histogram shifted by the difference between `to_ns` and `from_ns`.
    pub(super) fn moved(&self, from_ns: usize, to_ns: usize) -> LatencyHistogram {
        let [from, to] = [from_ns, to_ns].map(|ns| ns / self.row_ns);
        let count = |row: usize| {
            let row = (row + from).checked_sub(to)?;
            self.counts.get(row).copied()
        };
        let rows = 0..self.counts.len();
        LatencyHistogram {
            row_ns: self.row_ns,
            counts: rows.map(|row| count(row).unwrap_or(0)).collect(),
        }
    }

    /// Returns the largest difference between the two distribution functions (Kolmogorov-Smirnov).
    pub(super) fn distance(&self, other: &LatencyHistogram) -> f64 {
        let (mut ours, mut theirs) = (0, 0);
        let all = (self.total().max(1) as f64, other.total().max(1) as f64);
        let compared = |histogram: &LatencyHistogram| -> Vec<u64> {
            let buckets = histogram.counts.chunks(COMPARED_NS / histogram.row_ns);
            buckets.map(|rows| rows.iter().sum()).collect()
        };
        let (our, their) = (compared(self), compared(other));
        let steps = our.iter().zip(&their).map(|(our, their)| {
            ours += our;
            theirs += their;
            (ours as f64 / all.0 - theirs as f64 / all.1).abs()
        });
        steps.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(counts: &[(usize, u64)]) -> LatencyHistogram {
        let mut rows = vec![0; 4 * COMPARED_NS];
        counts.iter().for_each(|(ns, count)| rows[*ns] = *count);
        LatencyHistogram {
            row_ns: 1,
            counts: rows,
        }
    }

    #[test]
    fn a_histogram_has_what_is_beyond_it() {
        let text = "# Histogram\n000000 000000\n000001 000003\n# Histogram Overflows: 00002\n";
        let read = LatencyHistogram::parse(text, 1_000).unwrap();
        assert_eq!(read.counts, [0, 3, 2]);
        assert_eq!(read.median_ns(), 1_000);
        assert!(LatencyHistogram::parse("000001 000003\n# Histogram Overflows: 0\n", 1).is_err());
        assert!(LatencyHistogram::parse("000000 000003\n", 1).is_err());
    }

    #[test]
    fn distributions_are_laid_over_each_other_by_the_microsecond() {
        let first = with(&[(1_100, 3), (2_100, 1)]);
        let second = with(&[(2_900, 3)]);
        assert!((first.distance(&second) - 0.75).abs() < 1e-9);
        assert!(first.distance(&with(&[(1_900, 3), (2_000, 1)])) < 1e-9);
        assert_eq!(second.moved(2_900, 1_900), with(&[(1_900, 3)]));
        let coarse = LatencyHistogram {
            row_ns: 1_000,
            counts: vec![0, 0, 9],
        };
        assert!(coarse.distance(&second) < 1e-9);
    }

    #[test]
    fn runs_that_differ_among_themselves_hide_as_much() {
        let runs = [with(&[(1_000, 4)]), with(&[(1_000, 3), (2_000, 1)])];
        let turns = Turns::of(&runs, &[with(&[(1_000, 4)]), with(&[(1_000, 4)])]);
        assert_eq!((turns.rounds, turns.ours_ns), (2, 1_000));
        assert!((turns.own_distance - 0.25).abs() < 1e-9, "{turns:?}");
        assert!((turns.our_largest - 0.25).abs() < 1e-9, "{turns:?}");
    }

    #[test]
    fn one_run_of_its_own_kind_is_reported_and_decides_nothing() {
        let (usual, other) = (with(&[(1_000, 4)]), with(&[(1_000, 3), (2_000, 1)]));
        let (theirs, mut ours) = (vec![usual.clone(); 3], vec![usual; 3]);
        ours[1] = other.clone();
        let turns = Turns::of(&theirs, &ours);
        assert!(turns.our_distance < 1e-9, "{turns:?}");
        assert!((turns.our_largest - 0.25).abs() < 1e-9, "{turns:?}");
        // One of our runs that resembles cyclictest's runs does not hide a difference that our
        // other runs show.
        ours[0] = other;
        let turns = Turns::of(&theirs, &ours);
        assert!((turns.our_distance - 0.25).abs() < 1e-9, "{turns:?}");
    }
}
