//! `vmnoise timerlat` beside cyclictest of rt-tests: in turns, on one machine under virtual
//! time, where nothing but the two differs.

use anyhow::{Context, Result, bail, ensure};

use crate::bed::{CommandOutput, Kernel, Lab};
use crate::installed::{LOADER, with_libraries};

/// Buckets of the histograms, microseconds.
const BUCKETS: usize = 2_000;

/// How late one run woke up, in buckets of a microsecond.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Histogram(Vec<u64>);

/// What a lab showed.
#[derive(Debug, Clone, PartialEq)]
pub struct BesideCyclictest {
    /// `uname -r`.
    pub kernel_version: String,
    /// Medians of cyclictest's runs, microseconds.
    pub cyclictest_us: [usize; 2],
    /// Medians of ours without witnesses.
    pub ours_us: [usize; 2],
    /// The median of ours with them.
    pub witnessed_us: usize,
    /// The largest distance between the distributions of cyclictest's two runs, 0 to 1.
    pub own_distance: f64,
    /// The largest between one of ours without witnesses and one of cyclictest's.
    pub our_distance: f64,
    /// The same with witnesses, moved by the difference of the medians: what is left is a
    /// difference in shape.
    pub witnessed_distance: f64,
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
    let theirs = format!("{LOADER} /bin/cyclictest -q -p95 -i1000 -l2000 -h {BUCKETS}");
    let witnessed = format!("vmnoise timerlat -d 2 --format cyclictest --histogram {BUCKETS}");
    let ours = format!("{witnessed} --no-trace");
    let report = lab.run(&[&theirs, &ours, &theirs, &ours, &witnessed])?;
    let histograms: Vec<Histogram> = report
        .outputs
        .iter()
        .map(Histogram::read)
        .collect::<Result<_>>()?;
    let [first, ours_first, second, ours_second, witnessed] = &histograms[..] else {
        bail!("{} outputs", histograms.len());
    };
    let theirs = [first, second];
    let ours = [ours_first, ours_second];
    let beside = |theirs: &Histogram| ours.map(|ours| theirs.distance(ours));
    let moved = |theirs: &Histogram| witnessed.moved(witnessed.median_us(), theirs.median_us());
    let largest = |distances: &[f64]| distances.iter().copied().fold(0.0, f64::max);
    Ok(BesideCyclictest {
        kernel_version: report.kernel_version.clone(),
        cyclictest_us: theirs.map(Histogram::median_us),
        ours_us: ours.map(Histogram::median_us),
        witnessed_us: witnessed.median_us(),
        own_distance: first.distance(second),
        our_distance: largest(theirs.map(beside).as_flattened()),
        witnessed_distance: largest(&theirs.map(|theirs| theirs.distance(&moved(theirs)))),
    })
}

impl Histogram {
    /// The rows `BUCKET COUNT` that cyclictest prints for one task.
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
        let histogram = Histogram(counts);
        ensure!(histogram.total() > 0, "an empty histogram");
        Ok(histogram)
    }

    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn median_us(&self) -> usize {
        let mut below = 0;
        let half = self.total() / 2;
        let reaches = |count: &u64| {
            below += count;
            below > half
        };
        self.0.iter().position(reaches).unwrap_or(0)
    }

    /// The same, earlier or later by the distance of the two.
    fn moved(&self, from_us: usize, to_us: usize) -> Histogram {
        let at = |bucket: usize| (bucket + from_us).checked_sub(to_us);
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
        let pairs = self.0.iter().zip(&other.0);
        let steps = pairs.map(|(our, their)| {
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

    #[test]
    fn distributions_are_laid_over_each_other() {
        let first = Histogram::parse("# Histogram\n000000 000000\n000001 000003\n000002 000001\n");
        let first = first.unwrap();
        let second = Histogram(vec![0, 0, 3]);
        assert_eq!((first.median_us(), second.median_us()), (1, 2));
        assert!((first.distance(&second) - 0.75).abs() < 1e-9);
        assert_eq!(second.moved(2, 1), Histogram(vec![0, 3, 0]));
        assert!((first.distance(&second.moved(2, 1)) - 0.25).abs() < 1e-9);
        assert!(Histogram::parse("000001 000003\n").is_err());
    }
}
