//! Histogram of `rtla osnoise hist`: gaps by length, with a column for each CPU.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use vmnoise_console::as_rtla;
use vmnoise_events::FinishReason;
use vmnoise_explain::LinearHistogram;
use vmnoise_views::{CpusResult, Meanwhile, News, ResultPart, ResultView, ViewPlan, Watcher};

use super::format::HistFrame;
use super::{caveats, cells, rtla, stop, text};

/// Options of the histogram.
#[derive(Debug, Clone, Args)]
pub struct NoiseBuckets {
    /// Width of a bucket in microseconds
    #[arg(short, long, value_name = "US", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=999_999))]
    bucket_size: u64,
    /// Number of buckets
    #[arg(short = 'E', long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(10..=9_999_999))]
    entries: u64,
    #[command(flatten)]
    frame: HistFrame,
    /// Leave out the column of bucket limits
    #[arg(long, requires = "with_zeros")]
    no_index: bool,
}

/// View that counts the gaps of a run by length, and prints the histogram at the end.
#[derive(Debug)]
pub struct NoiseHist {
    asked: NoiseBuckets,
    keeps_trace: bool,
    cpus: BTreeMap<u32, LinearHistogram>,
}

impl NoiseHist {
    /// Creates the view. With `keeps_trace`, the run keeps the last lines of its trace.
    pub fn new(asked: &NoiseBuckets, keeps_trace: bool) -> NoiseHist {
        NoiseHist {
            asked: asked.clone(),
            keeps_trace,
            cpus: BTreeMap::new(),
        }
    }
}

impl Watcher for NoiseHist {
    fn see(&mut self, news: News<'_>) {
        if let News::Interval(gap) = news {
            self.cpus
                .entry(gap.cpu)
                .or_insert_with(|| {
                    LinearHistogram::new(self.asked.bucket_size * 1000, self.asked.entries as usize)
                })
                .record(gap.dur_ns);
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        None
    }
}

impl ResultView for NoiseHist {
    fn plan(&self) -> ViewPlan {
        ViewPlan {
            keeps_trace: self.keeps_trace,
            meanwhile: Meanwhile::Time,
        }
    }

    fn print(&mut self, part: ResultPart<'_>) -> Result<()> {
        let ResultPart::Cpus(result) = part else {
            return Ok(());
        };
        let CpusResult { facts, summary, .. } = result;
        let mut out = stop::report(&result);
        out += &self.render(rtla::measured(summary));
        out += &rtla::hit(summary, "osnoise");
        if !self.asked.frame.no_summary {
            out += &format!(
                "\n{}\n{}",
                text::periodic(summary),
                caveats::render(facts, summary)
            );
        }
        super::write(out.as_bytes())
    }
}

impl NoiseHist {
    fn render(&self, elapsed: Duration) -> String {
        let mut out = String::new();
        if !self.asked.frame.no_header {
            out += &format!("# {} osnoise histogram\n", as_rtla::title());
            out += "# Time unit is microseconds (us)\n";
            out += &format!("# Duration: {}\n", rtla::clock(elapsed));
            out += &self.row("Index", |_, cpu| format!("  CPU-{cpu:03}"));
        }
        for bucket in 0..self.asked.entries as usize {
            if self.asked.frame.with_zeros
                || self
                    .cpus
                    .values()
                    .any(|cpu| cpu.counts().get(bucket).is_some_and(|count| *count > 0))
            {
                let limit = (bucket as u64 * self.asked.bucket_size).to_string();
                out += &self.row(&limit, |reported, _| {
                    format!("{:>9}", reported.counts().get(bucket).copied().unwrap_or(0))
                });
            }
        }
        if !self.asked.frame.no_summary {
            let us = |ns: Option<u64>| cells::number(ns.map(|ns| ns / 1000));
            out += &self.row("over:", |reported, _| format!("{:>9}", reported.overflow()));
            out += &self.row("count:", |reported, _| format!("{:>9}", reported.count()));
            out += &self.row("min:", |reported, _| {
                format!("{:>9}", us(reported.min_ns()))
            });
            out += &self.row("avg:", |reported, _| {
                let mean_us = reported.mean_ns().map(|ns| ns as f64 / 1e3);
                format!(
                    "{:>9}",
                    mean_us.map_or_else(|| "-".into(), |us| format!("{us:.2}"))
                )
            });
            out += &self.row("max:", |reported, _| {
                format!("{:>9}", us(reported.max_ns()))
            });
        }
        out
    }

    /// Returns one line: `name`, except with `--no-index`, then a cell for each CPU.
    fn row(&self, name: &str, cell: impl Fn(&LinearHistogram, u32) -> String) -> String {
        let mut line = match self.asked.no_index {
            false => format!("{name:<6}"),
            true => String::new(),
        };
        for (cpu, reported) in &self.cpus {
            line += &format!("{} ", cell(reported, *cpu));
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    }
}
