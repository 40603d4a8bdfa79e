//! Output of `vmnoise timerlat hist`: histograms of the latencies in each context, in rtla's
//! layout.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use vmnoise_console::as_rtla;
use vmnoise_events::FinishReason;
use vmnoise_explain::{Interval, LinearHistogram};
use vmnoise_views::{CpusResult, Meanwhile, News, ResultPart, ResultView, ViewPlan, Watcher};

use super::at_stop::StackFormat;
use super::columns::{ContextFigures, CpuColumns};
use super::exports::{Exporter, Exports};
use super::{analysis, budget};
use crate::format::HistFrame;
use crate::{caveats, from_feed, rtla};

/// Options of the histograms.
#[derive(Debug, Clone, Args)]
pub struct LatencyBuckets {
    /// Width of a bucket in microseconds; in nanoseconds with --nano
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=999_999))]
    bucket_size: u64,
    /// Number of buckets
    #[arg(short = 'E', long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(10..=9_999_999))]
    entries: u64,
    /// Leave out the columns of the timer's interrupt
    #[arg(long)]
    no_irq: bool,
    /// Leave out the columns of the tasks in the kernel
    #[arg(long)]
    no_thread: bool,
    #[command(flatten)]
    frame: HistFrame,
    /// Leave out the column of bucket limits
    #[arg(long, requires = "with_zeros")]
    no_index: bool,
    /// Outputs in the formats of cyclictest.
    #[command(flatten)]
    pub exports: Exports,
}

/// View that fills the histograms during the run, and prints them at the end.
#[derive(Debug)]
pub struct LatencyHist {
    asked: LatencyBuckets,
    nano: bool,
    keeps_trace: bool,
    /// Format of kernel stacks, if the result contains an analysis of the wake-up that stopped the
    /// run.
    stacks: Option<StackFormat>,
    columns: CpuColumns,
    counts: BTreeMap<u32, [LinearHistogram; 3]>,
    exporter: Exporter,
}

const HEADS: [&str; 3] = ["IRQ", "Thr", "Usr"];

impl LatencyHist {
    /// Creates the view. With `keeps_trace`, the run keeps the last lines of its trace. With
    /// `stacks`, the format of kernel stacks, the result contains an analysis of the wake-up that
    /// stopped the run.
    pub fn new(
        asked: &LatencyBuckets,
        nano: bool,
        keeps_trace: bool,
        stacks: Option<StackFormat>,
    ) -> LatencyHist {
        LatencyHist {
            exporter: Exporter::new(&asked.exports, nano),
            asked: asked.clone(),
            nano,
            keeps_trace,
            stacks,
            columns: CpuColumns::default(),
            counts: BTreeMap::new(),
        }
    }

    fn add(&mut self, wakeup: &Interval) {
        self.columns.add(wakeup);
        self.exporter.wakeup(wakeup);
        let (bucket_ns, entries) = (
            self.asked.bucket_size * self.per(),
            self.asked.entries as usize,
        );
        let new = || [(); 3].map(|()| LinearHistogram::new(bucket_ns, entries));
        let counts = self.counts.entry(wakeup.cpu).or_insert_with(new);
        for (counts, latency_ns) in counts.iter_mut().zip(wakeup.latencies_ns()) {
            if let Some(ns) = latency_ns {
                counts.record(ns);
            }
        }
    }

    /// Returns whether each of the three contexts has columns.
    fn shown(&self) -> [bool; 3] {
        [!self.asked.no_irq, !self.asked.no_thread, true]
    }

    fn per(&self) -> u64 {
        if self.nano { 1 } else { 1_000 }
    }

    fn render(&self, elapsed: Duration) -> String {
        let unit = if self.nano {
            "nanoseconds (ns)"
        } else {
            "microseconds (us)"
        };
        let mut out = String::new();
        if !self.asked.frame.no_header {
            out += &format!("# {} timerlat histogram\n", as_rtla::title());
            out += &format!("# Time unit is {unit}\n");
            out += &format!("# Duration: {}\n", rtla::clock(elapsed));
            if !self.asked.no_index {
                out += "Index";
            }
            for cpu in self.counts.keys() {
                let heads = HEADS.iter().zip(self.shown()).filter(|(_, shown)| *shown);
                out.extend(heads.map(|(head, _)| format!("   {head}-{cpu:03}")));
            }
            out.push('\n');
        }
        for bucket in 0..self.asked.entries as usize {
            let cells = self.cells(|counts| counts.counts()[bucket]);
            if self.asked.frame.with_zeros || cells.iter().any(|count| *count > 0) {
                let limit = (bucket as u64 * self.asked.bucket_size).to_string();
                out += &self.row(&limit, cells.iter().map(u64::to_string));
            }
        }
        let over = self.cells(LinearHistogram::overflow);
        out += &self.row("over:", over.iter().map(u64::to_string));
        if !self.asked.frame.no_summary {
            let cpus = self.columns.iter().map(|(_, contexts)| contexts.all());
            let cpus: Vec<_> = cpus.flat_map(|all| self.of_shown(all)).collect();
            out += &self.figures(&cpus);
            let heads = self.of_shown(HEADS);
            if !self.asked.no_index {
                out += "ALL:  ";
            }
            // rtla prints a blank between these headings, but not after the last heading.
            let heads: Vec<_> = heads.iter().map(|head| format!("{head:>9}")).collect();
            out += &(heads.join(" ") + "\n");
            out += &self.figures(&self.of_shown(self.columns.total().all()));
        }
        out
    }

    fn of_shown<T>(&self, contexts: [T; 3]) -> Vec<T> {
        let shown = contexts.into_iter().zip(self.shown());
        let shown = shown.filter(|(_, shown)| *shown);
        shown.map(|(context, _)| context).collect()
    }

    fn cells(&self, of: impl Fn(&LinearHistogram) -> u64) -> Vec<u64> {
        let cpus = self.counts.values();
        let cells = cpus.flat_map(|contexts| self.of_shown(contexts.each_ref()));
        cells.map(of).collect()
    }

    fn figures(&self, columns: &[ContextFigures]) -> String {
        let cell = |ns: Option<u64>| match ns {
            Some(ns) => (ns / self.per()).to_string(),
            None => "-".to_owned(),
        };
        let of = |figure: fn(&ContextFigures) -> Option<u64>| columns.iter().map(figure).map(cell);
        let mut out = self.row("count:", columns.iter().map(|it| it.count.to_string()));
        out += &self.row("min:", of(|it| it.known(it.min_ns)));
        out += &self.row("avg:", of(ContextFigures::mean_ns));
        out + &self.row("max:", of(|it| it.known(it.max_ns)))
    }

    /// Returns one line: `name`, except with `--no-index`, then a cell for each column. As in rtla,
    /// a blank follows each cell.
    fn row(&self, name: &str, cells: impl Iterator<Item = String>) -> String {
        let mut line = match self.asked.no_index {
            false => format!("{name:<6}"),
            true => String::new(),
        };
        line.extend(cells.map(|cell| format!("{cell:>9} ")));
        line + "\n"
    }
}

impl Watcher for LatencyHist {
    fn see(&mut self, news: News<'_>) {
        match news {
            News::Begin(facts) => self.exporter.begin(facts),
            News::Interval(wakeup) => self.add(wakeup),
            _ => {}
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        None
    }
}

impl ResultView for LatencyHist {
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
        let analysis = match self.stacks {
            Some(stacks) => analysis::report(&result, stacks),
            None => String::new(),
        };
        let table = self.render(rtla::measured(summary));
        let mut out = match as_rtla::prints_cause_last() {
            true => table + &rtla::hit(summary, "timerlat") + &analysis,
            false => analysis + &table,
        };
        if !self.asked.frame.no_summary {
            out += &summary
                .wakeups
                .as_ref()
                .map_or_else(String::new, budget::sums);
            out += &from_feed::render(summary);
            out += &format!("\n{}", caveats::render(facts, summary));
        }
        let exported = self.exporter.finish(facts, summary, &self.columns);
        out.extend(exported.iter().map(String::as_str));
        crate::write(out.as_bytes()).and(exported.map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timerlat::fixtures::wakeup;

    fn asked() -> LatencyBuckets {
        LatencyBuckets {
            bucket_size: 1,
            entries: 10,
            no_irq: false,
            no_thread: false,
            frame: HistFrame {
                with_zeros: false,
                no_header: false,
                no_summary: false,
            },
            no_index: false,
            exports: Exports::default(),
        }
    }

    #[test]
    fn the_histogram_is_that_of_rtla() {
        let mut hist = LatencyHist::new(&asked(), false, false, None);
        hist.add(&wakeup(1, 2_100, 4_000, 12_000));
        hist.add(&wakeup(1, 2_900, 5_000, 5_500));
        let text = hist.render(Duration::from_secs(2));
        let expected = "# vmnoise timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:02
Index   IRQ-001   Thr-001   Usr-001
2             2         0         0 
4             0         1         0 
5             0         1         1 
over:         0         0         1 
count:        2         2         2 
min:          2         4         5 
avg:          2         4         8 
max:          2         5        12 
ALL:        IRQ       Thr       Usr
count:        2         2         2 
min:          2         4         5 
avg:          2         4         8 
max:          2         5        12 
";
        assert_eq!(text, expected);
    }

    #[test]
    fn contexts_can_be_left_out() {
        let frame = HistFrame {
            with_zeros: false,
            no_header: true,
            no_summary: true,
        };
        let asked = LatencyBuckets {
            no_irq: true,
            no_thread: true,
            no_index: true,
            frame,
            ..asked()
        };
        let mut hist = LatencyHist::new(&asked, false, false, None);
        hist.add(&wakeup(0, 2_100, 4_000, 5_000));
        assert_eq!(hist.render(Duration::ZERO), "        1 \n        0 \n");
    }
}
