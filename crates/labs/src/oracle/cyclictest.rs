//! `vmnoise timerlat` beside cyclictest of rt-tests: in turns, on one machine under virtual
//! time, where nothing but the two differs.

use anyhow::{Context, Result, bail, ensure};

use crate::bed::{CommandOutput, Kernel, Lab};
use crate::installed::{LOADER, with_libraries};

/// The histograms reach so far, nanoseconds; what is later is one bucket more.
const REACH_NS: usize = 20_000;
/// Both are compared in the unit of cyclictest.
const BUCKET_NS: usize = 1_000;
/// How often each of the two ran.
const ROUNDS: usize = 6;

/// How late the wake-ups of one run or of several were, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Histogram(Vec<u64>);

/// What a lab showed. A distance is the largest between two distribution functions, 0 to 1,
/// in buckets of a microsecond.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideCyclictest {
    /// `uname -r`.
    pub kernel_version: String,
    /// How often each of the two ran.
    pub rounds: usize,
    /// Median of all of cyclictest's wake-ups.
    pub cyclictest_ns: usize,
    /// Of ours without witnesses.
    pub ours_ns: usize,
    /// Of ours with them.
    pub witnessed_ns: usize,
    /// The largest between two runs of cyclictest.
    pub own_distance: f64,
    /// Between all of ours without witnesses and all of cyclictest's.
    pub our_distance: f64,
    /// The largest between one run of ours without witnesses and one of cyclictest's.
    pub our_largest: f64,
    /// Between all of ours with witnesses and all of cyclictest's, moved by the difference
    /// of the medians: what is left is a difference in shape.
    pub witnessed_distance: f64,
    /// Between both in one and the same time, on one CPU.
    pub at_once: f64,
}

/// Boots a lab and compares.
///
/// # Errors
/// If cyclictest is not installed, or the lab fails or says what cannot be read.
pub fn beside_cyclictest() -> Result<BesideCyclictest> {
    let mut lab = Lab::kernel(Kernel::Cloud).virtual_time(0);
    for file in with_libraries("cyclictest", "rt-tests")? {
        lab = lab.program(&file);
    }
    let theirs = format!("{LOADER} /bin/cyclictest -q -N -p95 -i1000 -l2000 -h {REACH_NS}");
    let witnessed = format!("vmnoise timerlat -n -d 2 --format cyclictest --histogram {REACH_NS}");
    let ours = format!("{witnessed} --no-trace");
    let theirs_at_once = format!("&& {theirs}");
    let mut commands = [&*theirs, &*ours].repeat(ROUNDS);
    commands.extend([&*witnessed, &*witnessed, &*theirs_at_once, &*ours]);
    let report = lab.run(&commands)?;
    let told = report.outputs.iter().map(Histogram::read);
    let told: Vec<Histogram> = told.collect::<Result<_>>()?;
    let (turns, rest) = told
        .split_at_checked(2 * ROUNDS)
        .context("a run is missing")?;
    let [witnessed @ .., ours_at_once, theirs_at_once] = rest else {
        bail!("{} outputs", told.len());
    };
    let theirs: Vec<Histogram> = turns.iter().step_by(2).cloned().collect();
    let ours: Vec<Histogram> = turns.iter().skip(1).step_by(2).cloned().collect();
    let [all_theirs, all_ours, all_witnessed] = [&*theirs, &*ours, witnessed].map(Histogram::all);
    let moved = all_witnessed.moved(all_witnessed.median_ns(), all_theirs.median_ns());
    Ok(BesideCyclictest {
        kernel_version: report.kernel_version.clone(),
        rounds: ROUNDS,
        cyclictest_ns: all_theirs.median_ns(),
        ours_ns: all_ours.median_ns(),
        witnessed_ns: all_witnessed.median_ns(),
        own_distance: largest_distance(&theirs, &theirs),
        our_distance: all_theirs.distance(&all_ours),
        our_largest: largest_distance(&theirs, &ours),
        witnessed_distance: all_theirs.distance(&moved),
        at_once: theirs_at_once.distance(ours_at_once),
    })
}

fn largest_distance(first: &[Histogram], second: &[Histogram]) -> f64 {
    let of = |one: &Histogram| {
        second
            .iter()
            .map(|other| one.distance(other))
            .fold(0.0, f64::max)
    };
    first.iter().map(of).fold(0.0, f64::max)
}

impl Histogram {
    /// The rows `BUCKET COUNT` that cyclictest prints for one task, and what is beyond.
    fn read(output: &CommandOutput) -> Result<Histogram> {
        Histogram::parse(output.text()?)
    }

    fn parse(text: &str) -> Result<Histogram> {
        let mut counts = Vec::new();
        for line in text
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        {
            let (bucket, count) = line.split_once(' ').context("a row without count")?;
            ensure!(
                bucket.parse::<usize>()? == counts.len(),
                "a bucket is missing: {line}"
            );
            counts.push(count.trim().parse()?);
        }
        let beyond = "# Histogram Overflows: ";
        let beyond = text.lines().find_map(|line| line.strip_prefix(beyond));
        counts.push(beyond.context("no overflows")?.trim().parse()?);
        let histogram = Histogram(counts);
        ensure!(histogram.total() > 0, "an empty histogram");
        Ok(histogram)
    }

    /// Those of several runs together.
    fn all(runs: &[Histogram]) -> Histogram {
        let buckets = runs.iter().map(|run| run.0.len()).max().unwrap_or(0);
        let count = |bucket: usize| {
            let counts = runs.iter().filter_map(|run| run.0.get(bucket));
            counts.sum()
        };
        Histogram((0..buckets).map(count).collect())
    }

    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn median_ns(&self) -> usize {
        let mut below = 0;
        let half = self.total() / 2;
        let reaches = |count: &u64| {
            below += count;
            below > half
        };
        self.0.iter().position(reaches).unwrap_or(0)
    }

    /// The same, earlier or later by the distance of the two.
    fn moved(&self, from_ns: usize, to_ns: usize) -> Histogram {
        let at = |bucket: usize| (bucket + from_ns).checked_sub(to_ns);
        let moved = (0..self.0.len()).map(|bucket| {
            let count = at(bucket).and_then(|bucket| self.0.get(bucket));
            count.copied().unwrap_or(0)
        });
        Histogram(moved.collect())
    }

    /// The largest distance between the two distribution functions (Kolmogorov, Smirnov).
    fn distance(&self, other: &Histogram) -> f64 {
        let (mut ours, mut theirs) = (0, 0);
        let all = (self.total().max(1) as f64, other.total().max(1) as f64);
        let pairs = self.0.chunks(BUCKET_NS).zip(other.0.chunks(BUCKET_NS));
        let steps = pairs.map(|(our, their)| {
            ours += our.iter().sum::<u64>();
            theirs += their.iter().sum::<u64>();
            (ours as f64 / all.0 - theirs as f64 / all.1).abs()
        });
        steps.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_what_is_beyond_it() {
        let text = "# Histogram\n000000 000000\n000001 000003\n# Histogram Overflows: 00002\n";
        let read = Histogram::parse(text).unwrap();
        assert_eq!(read, Histogram(vec![0, 3, 2]));
        assert_eq!(read.median_ns(), 1);
        assert!(Histogram::parse("000001 000003\n# Histogram Overflows: 0\n").is_err());
        assert!(Histogram::parse("000000 000003\n").is_err());
    }

    #[test]
    fn distributions_are_laid_over_each_other_by_the_microsecond() {
        let with = |counts: &[(usize, u64)]| {
            let mut buckets = vec![0; 4 * BUCKET_NS];
            counts.iter().for_each(|(ns, count)| buckets[*ns] = *count);
            Histogram(buckets)
        };
        let first = with(&[(1_100, 3), (2_100, 1)]);
        let second = with(&[(2_900, 3)]);
        assert!((first.distance(&second) - 0.75).abs() < 1e-9);
        assert!(first.distance(&with(&[(1_900, 3), (2_000, 1)])) < 1e-9);
        assert_eq!(second.moved(2_900, 1_900), with(&[(1_900, 3)]));
        assert_eq!(
            Histogram::all(&[first, second]),
            with(&[(1_100, 3), (2_100, 1), (2_900, 3)])
        );
    }
}
