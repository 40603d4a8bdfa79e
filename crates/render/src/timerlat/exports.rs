//! Outputs of `--histogram`, `--histfile`, `--json` and `--cdf`, which vmnoise writes in addition
//! to the result.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use vmnoise_console::say;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Interval, LinearHistogram, Summary};
use vmnoise_export::write_whole;

use super::columns::CpuColumns;
use super::cyclictest::histogram;
use super::rt_tests;
use crate::json;

/// Number of buckets of the histogram in the JSON, if the user gives no number. The JSON of
/// cyclictest contains a histogram, too.
const JSON_BUCKETS: u32 = 100_000;

/// Options for outputs in the formats of cyclictest, and for a distribution to plot.
#[derive(Debug, Clone, Default, Args)]
pub struct Exports {
    /// Print cyclictest's histogram up to this many us after the result
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub histogram: Option<u32>,
    /// Write the histogram to this file, not to stdout
    #[arg(long, value_name = "FILE", requires = "histogram")]
    pub histfile: Option<PathBuf>,
    /// Write the result to this file in the JSON of rt-tests
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the cumulative distribution of each CPU's latencies to this file, for plotting
    #[arg(long, value_name = "FILE")]
    pub cdf: Option<PathBuf>,
}

/// Collector of the data for [`Exports`] during the run.
#[derive(Debug, Default)]
pub struct Exporter {
    asked: Exports,
    nano: bool,
    /// Whether the histogram has a column for all CPUs together.
    sums: bool,
    cpus: BTreeMap<u32, Gathered>,
}

/// Histogram of one CPU's latencies, with the numbers of the wake-ups beyond its last bucket.
#[derive(Debug)]
struct Gathered {
    histogram: LinearHistogram,
    cycles: u64,
    overflow_cycles: Vec<u64>,
}

impl Exporter {
    /// Creates a collector for these outputs; with `nano` all times are in nanoseconds.
    pub fn new(exports: &Exports, nano: bool) -> Exporter {
        Exporter {
            asked: exports.clone(),
            nano,
            sums: false,
            cpus: BTreeMap::new(),
        }
    }

    /// Adds a column for all CPUs together to the histogram.
    pub fn with_sums(self) -> Exporter {
        Exporter { sums: true, ..self }
    }

    fn buckets(&self) -> Option<usize> {
        let of_json = self.asked.json.as_ref().map(|_| JSON_BUCKETS);
        let buckets = self.asked.histogram.or(of_json);
        buckets.map(|buckets| buckets as usize)
    }

    /// Returns whether the user asked for cyclictest's histogram, in a file or on stdout.
    pub fn has_histogram(&self) -> bool {
        self.asked.histogram.is_some()
    }

    /// Creates an entry for each CPU of the run, also for a CPU that has no wake-up.
    pub fn begin(&mut self, facts: &RunFacts) {
        let Some(buckets) = self.buckets() else {
            return;
        };
        for &cpu in &facts.options.cpus {
            self.cpus.insert(
                cpu,
                Gathered {
                    histogram: LinearHistogram::new(if self.nano { 1 } else { 1_000 }, buckets),
                    cycles: 0,
                    overflow_cycles: Vec::new(),
                },
            );
        }
    }

    /// Adds a wake-up.
    pub fn wakeup(&mut self, wakeup: &Interval) {
        let Some(cpu) = self.cpus.get_mut(&wakeup.cpu) else {
            return;
        };
        let overflow = cpu.histogram.overflow();
        cpu.histogram.record(wakeup.dur_ns);
        let overflows = cpu.histogram.overflow() > overflow;
        if overflows && cpu.overflow_cycles.len() < cpu.histogram.counts().len() {
            cpu.overflow_cycles.push(cpu.cycles);
        }
        cpu.cycles += 1;
    }

    /// Writes the files. Returns the text that follows the result on stdout.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(
        &self,
        facts: &RunFacts,
        summary: &Summary,
        columns: &CpuColumns,
    ) -> Result<String> {
        if let Some(path) = &self.asked.json {
            let histogram = |cpu| Some(&self.cpus.get(&cpu)?.histogram);
            let mut out = Vec::new();
            let document =
                rt_tests::RtTestsDocument::new(facts, summary, columns, self.nano, histogram);
            json::write(&mut out, &document)?;
            write(path, &out)?;
        }
        if let Some(path) = &self.asked.cdf {
            write(path, cdf(summary).as_bytes())?;
        }
        if self.asked.histogram.is_none() {
            return Ok(String::new());
        }
        let columns: Vec<_> = self
            .cpus
            .values()
            .map(|cpu| cpu.histogram.clone())
            .collect();
        let cycles = self.cpus.values().map(|cpu| cpu.overflow_cycles.clone());
        let cycles: Vec<_> = cycles.collect();
        let text = histogram(&columns, &cycles, self.nano, self.sums);
        match &self.asked.histfile {
            Some(path) => {
                write(path, text.as_bytes())?;
                Ok(String::new())
            }
            None => Ok(text),
        }
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    write_whole(path, content).with_context(|| format!("cannot write {}", say::name_of(path)))
}

/// Returns columns for plotting: for each CPU, the fraction of the wake-ups up to each latency. The
/// first view is as measured; the second is corrected for coordinated omission.
fn cdf(summary: &Summary) -> String {
    let mut out = String::from("# cpu view latency_ns count fraction\n");
    let wakeups = summary.wakeups.iter();
    for cpu in wakeups.flat_map(|wakeups| &wakeups.cpus) {
        for (view, counts) in [
            ("felt", &cpu.distribution),
            ("corrected", &cpu.corrected_distribution),
        ] {
            let all: u64 = counts.iter().map(|(_, count)| count).sum();
            let mut so_far = 0;
            for (edge_ns, count) in counts {
                so_far += count;
                let fraction = so_far as f64 / all as f64;
                let _ = writeln!(out, "{} {view} {edge_ns} {count} {fraction:.9}", cpu.cpu);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use vmnoise_events::{Activation, Event, MeasuringCommand, fixtures};
    use vmnoise_explain::Explainer;

    use super::*;

    #[test]
    fn a_distribution_reaches_one_in_both_views() {
        let mut facts = fixtures::polling_facts();
        facts.workload = MeasuringCommand::Timerlat;
        facts.options.timer = Some(fixtures::timer(1_000));
        let mut explainer = Explainer::new(&facts);
        for (nth, latency_ns) in (1..).zip([500, 1_500, 500]) {
            let expiry_mono_ns = nth * 10_000;
            let activation = Activation {
                cpu: 16,
                expiry_mono_ns,
                woke_mono_ns: expiry_mono_ns + latency_ns,
                ..Activation::default()
            };
            explainer.push(&Event::Activation(activation), &mut |_| {});
        }
        // A latency of 1.5 periods delays two wake-ups, so the corrected view has one more wake-up.
        let expected = "# cpu view latency_ns count fraction
16 felt 500 2 0.666666667
16 felt 1500 1 1.000000000
16 corrected 500 3 0.750000000
16 corrected 1500 1 1.000000000
";
        assert_eq!(cdf(&explainer.finish()), expected);
    }
}
