//! The histogram of `rtla osnoise hist`: gaps by length, a column for each CPU.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Interval, LinearHistogram, Summary};

use super::{cells, honesty, rtla, stop, text};
use crate::args::OsnoiseHistArguments;
use crate::run::recent_trace::RecentTrace;
use crate::run::view::{Meanwhile, View};

/// Collects the gaps of a run.
#[derive(Debug)]
pub struct Hist {
    bucket_us: u64,
    entries: u64,
    with_zeros: bool,
    header: bool,
    summary: bool,
    index: bool,
    keeps_trace: bool,
    cpus: BTreeMap<u32, LinearHistogram>,
}

impl Hist {
    /// An empty histogram for these arguments.
    pub fn new(arguments: &OsnoiseHistArguments) -> Hist {
        Hist {
            bucket_us: arguments.bucket_size,
            entries: arguments.entries,
            with_zeros: arguments.frame.with_zeros,
            header: !arguments.frame.no_header,
            summary: !arguments.frame.no_summary,
            index: !arguments.no_index,
            keeps_trace: arguments.common.keeps_trace(),
            cpus: BTreeMap::new(),
        }
    }
}

impl View for Hist {
    fn wants_trace(&self) -> bool {
        self.keeps_trace
    }

    fn meanwhile(&self) -> Meanwhile {
        Meanwhile::Time
    }

    fn interval(&mut self, gap: &Interval) {
        self.cpus
            .entry(gap.cpu)
            .or_insert_with(|| LinearHistogram::new(self.bucket_us * 1000, self.entries as usize))
            .record(gap.dur_ns);
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        let mut out = stop::report(facts, summary, trace);
        out += &self.render(rtla::measured(summary));
        if self.summary {
            out += &format!(
                "\n{}\n{}",
                text::periodic(summary),
                honesty::render(facts, summary)
            );
        }
        super::write(out.as_bytes())
    }
}

impl Hist {
    fn render(&self, elapsed: Duration) -> String {
        let mut out = String::new();
        if self.header {
            out += "# vmnoise osnoise histogram\n# Time unit is microseconds (us)\n";
            out += &format!("# Duration: {}\n", rtla::clock(elapsed));
            out += &self.row("Index", |_, cpu| format!("  CPU-{cpu:03}"));
        }
        for bucket in 0..self.entries as usize {
            if self.with_zeros
                || self
                    .cpus
                    .values()
                    .any(|cpu| cpu.counts().get(bucket).is_some_and(|count| *count > 0))
            {
                let limit = (bucket as u64 * self.bucket_us).to_string();
                out += &self.row(&limit, |told, _| {
                    format!("{:>9}", told.counts().get(bucket).copied().unwrap_or(0))
                });
            }
        }
        if self.summary {
            let us = |ns: Option<u64>| cells::number(ns.map(|ns| ns / 1000));
            out += &self.row("over:", |told, _| format!("{:>9}", told.overflow()));
            out += &self.row("count:", |told, _| format!("{:>9}", told.count()));
            out += &self.row("min:", |told, _| format!("{:>9}", us(told.min_ns())));
            out += &self.row("avg:", |told, _| {
                let mean_us = told.mean_ns().map(|ns| ns as f64 / 1e3);
                format!(
                    "{:>9}",
                    mean_us.map_or_else(|| "-".into(), |us| format!("{us:.2}"))
                )
            });
            out += &self.row("max:", |told, _| format!("{:>9}", us(told.max_ns())));
        }
        out
    }

    /// One line: its name, unless left out, and a cell for each CPU.
    fn row(&self, name: &str, cell: impl Fn(&LinearHistogram, u32) -> String) -> String {
        let mut line = if self.index {
            format!("{name:<6}")
        } else {
            String::new()
        };
        for (cpu, told) in &self.cpus {
            line += &format!("{} ", cell(told, *cpu));
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    }
}
