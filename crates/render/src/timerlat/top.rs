//! Output of `vmnoise timerlat top`: a table during the run, and the same table with more details
//! at the end.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use vmnoise_console::as_rtla;
use vmnoise_events::{FinishReason, RunFacts};
use vmnoise_explain::{Interval, WakeupSummary};
use vmnoise_views::{CpusResult, Meanwhile, News, ResultPart, ResultView, ViewPlan, Watcher};

use super::at_stop::StackFormat;
use super::columns::CpuColumns;
use super::cyclictest::{Cyclictest, CyclictestWords};
use super::document::LatencyDocument;
use super::exports::{Exporter, Exports};
use super::{analysis, budget, rtla_table};
use crate::format::LatencyFormat;
use crate::stream::Stream;
use crate::tree::tree;
use crate::{caveats, from_feed, json, rtla, screen};

/// Options of the table.
#[derive(Debug, Clone, Copy)]
pub struct TopOptions {
    /// Output format.
    pub format: LatencyFormat,
    /// Whether the table is shown only at the end.
    pub quiet: bool,
    /// Whether the table shows nanoseconds in place of microseconds.
    pub nano: bool,
    /// Whether the run keeps the last lines of its trace.
    pub keeps_trace: bool,
    /// Format of kernel stacks, if the result contains an analysis of the wake-up that stopped the
    /// run.
    pub stacks: Option<StackFormat>,
    /// Whether only the analysis is printed.
    pub aa_only: bool,
    /// Number of wake-ups of each task after which the run ends; `None` without such a limit.
    pub loops: Option<u64>,
    /// Output options of cyclictest; `None` if vmnoise was not called as `cyclictest`.
    pub cyclictest: Option<CyclictestWords>,
}

/// View that redraws the table every second if stdout is a terminal. Otherwise it prints the table
/// once, at the end.
#[derive(Debug)]
pub struct LatencyTop {
    asked: TopOptions,
    draws: bool,
    columns: CpuColumns,
    cyclictest: Cyclictest,
    exporter: Exporter,
    stream: Stream,
    /// Measured CPUs, in the order of their tasks.
    cpus: Vec<u32>,
    /// First wake-up that hit a limit.
    broken: Option<Interval>,
    /// Last line of the table, if the other lines have been printed already.
    sums: Option<String>,
}

impl LatencyTop {
    /// Creates the view and its exports.
    pub fn new(asked: TopOptions, exports: &Exports) -> LatencyTop {
        let TopOptions {
            format,
            quiet,
            nano,
            aa_only,
            cyclictest,
            ..
        } = asked;
        let exporter = Exporter::new(exports, nano);
        let is_shown = format == LatencyFormat::Text && !quiet && !aa_only;
        LatencyTop {
            asked,
            draws: is_shown && std::io::stdout().is_terminal(),
            columns: CpuColumns::default(),
            cyclictest: Cyclictest::new(nano),
            exporter: match cyclictest.is_some_and(|words| words.sums) {
                true => exporter.with_sums(),
                false => exporter,
            },
            stream: Stream::default(),
            cpus: Vec::new(),
            broken: None,
            sums: None,
        }
    }

    /// Creates the view of a recording.
    pub fn of_recording(format: LatencyFormat) -> LatencyTop {
        let asked = TopOptions {
            format,
            quiet: true,
            nano: false,
            keeps_trace: true,
            stacks: Some(StackFormat::default()),
            aa_only: false,
            loops: None,
            cyclictest: None,
        };
        LatencyTop::new(asked, &Exports::default())
    }

    /// Turns off the table during the run, because the live view fills the terminal.
    pub fn be_silent(&mut self) {
        self.draws = false;
    }

    /// Returns whether the table is shown during the run.
    pub fn draws(&self) -> bool {
        self.draws
    }

    fn table(&self, elapsed: Duration) -> String {
        rtla_table::render(&self.columns, elapsed, self.asked.nano)
    }

    /// Returns whether each wake-up has its own line.
    fn prints_values(&self) -> bool {
        self.asked.cyclictest.is_some_and(|words| words.verbose)
    }

    fn cyclictest_text(&self, facts: &RunFacts) -> String {
        // If each wake-up has its own line, `begin` has already printed this line.
        let mut out = match self.prints_values() {
            true => String::new(),
            false => Cyclictest::held(facts),
        };
        let histogram = self.exporter.has_histogram();
        if self
            .asked
            .cyclictest
            .is_none_or(|words| words.has_lines(histogram))
        {
            out += &self.cyclictest.render(facts, &self.columns);
        }
        out
    }

    fn text(&self, result: &CpusResult<'_>) -> String {
        let CpusResult { facts, summary, .. } = *result;
        let hit = rtla::hit(summary, "timerlat");
        let analysis = match self.asked.stacks {
            Some(stacks) => analysis::report(result, stacks),
            None => String::new(),
        };
        if self.asked.aa_only {
            return hit + &analysis;
        }
        let table = match &self.sums {
            Some(sums) => sums.clone(),
            None => self.table(rtla::measured(summary)),
        };
        let mut out = match as_rtla::prints_cause_last() {
            true => table + &hit + &analysis,
            false => analysis + &table,
        };
        if let Some(wakeups) = &summary.wakeups {
            out += &worst(wakeups);
            out += &budget::sums(wakeups);
        }
        out += &from_feed::render(summary);
        out + &format!("\n{}", caveats::render(facts, summary))
    }
}

/// Renders the wake-up with the longest latency.
pub fn worst(wakeups: &WakeupSummary) -> String {
    let tree = |worst| format!("\nThe longest latency\n{}", tree(worst));
    wakeups.worst.first().map(tree).unwrap_or_default()
}

impl Watcher for LatencyTop {
    fn see(&mut self, news: News<'_>) {
        match news {
            News::Begin(facts) => self.begin(facts),
            News::Interval(wakeup) => self.add(wakeup),
            News::Period(period) if self.draws => {
                let table = self.table(period.since_start);
                self.stream.redraw(&table);
            }
            _ => {}
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        let loops = self.asked.loops?;
        let has_all = |cpu: &u32| self.columns.count_of(*cpu) >= loops;
        let is_complete = self.cpus.iter().any(has_all);
        is_complete.then_some(FinishReason::Duration)
    }
}

impl ResultView for LatencyTop {
    fn plan(&self) -> ViewPlan {
        ViewPlan {
            keeps_trace: self.asked.keeps_trace,
            meanwhile: match self.draws {
                true => Meanwhile::Own,
                false if self.asked.quiet => Meanwhile::Nothing,
                false => Meanwhile::Time,
            },
        }
    }

    fn print(&mut self, part: ResultPart<'_>) -> Result<()> {
        match part {
            ResultPart::BeforeActions(measured) => self.print_before_actions(measured),
            ResultPart::Cpus(result) => self.print_result(&result),
            ResultPart::Vcpus(_) => Ok(()),
        }
    }
}

impl LatencyTop {
    fn begin(&mut self, facts: &RunFacts) {
        // Only this format needs the thread ids, which are read from /proc. The tasks of a
        // recording no longer exist, and a forged recording may list thousands of them.
        if matches!(self.asked.format, LatencyFormat::Cyclictest) {
            self.cyclictest.begin(facts);
        }
        self.exporter.begin(facts);
        self.cpus.clone_from(&facts.options.cpus);
        if self.prints_values() {
            self.stream.print(&Cyclictest::verbose_head(facts));
        }
    }

    fn add(&mut self, wakeup: &Interval) {
        let so_far = self.columns.count_of(wakeup.cpu);
        if self.asked.loops.is_some_and(|loops| so_far >= loops) {
            return;
        }
        self.columns.add(wakeup);
        self.exporter.wakeup(wakeup);
        if wakeup.hits_limit && self.broken.is_none() {
            self.broken = Some(wakeup.clone());
        }
        if self.prints_values() {
            let task = self.cpus.iter().position(|cpu| *cpu == wakeup.cpu);
            let line = task.map(|task| self.cyclictest.value(task, so_far, wakeup.dur_ns));
            line.iter().for_each(|line| self.stream.print(line));
        }
    }

    /// Prints the table, without its last line, before the actions run, as rtla does.
    fn print_before_actions(&mut self, measured: Duration) -> Result<()> {
        let TopOptions {
            format,
            quiet,
            aa_only,
            ..
        } = self.asked;
        let is_shown = format == LatencyFormat::Text && !quiet && !aa_only && !self.draws;
        if !is_shown || !as_rtla::prints_table_before_actions() {
            return Ok(());
        }
        let table = self.table(measured);
        let (rows, sums) = table.trim_end().rsplit_once('\n').unwrap_or(("", &table));
        crate::write(format!("{rows}\n").as_bytes())?;
        self.sums = Some(format!("{sums}\n"));
        Ok(())
    }

    fn print_result(&mut self, result: &CpusResult<'_>) -> Result<()> {
        let CpusResult { facts, summary, .. } = *result;
        let mut out = match self.asked.format {
            LatencyFormat::Json => {
                let mut out = Vec::new();
                json::write(&mut out, &LatencyDocument::new(facts, summary))?;
                out
            }
            LatencyFormat::Cyclictest => self.cyclictest_text(facts).into_bytes(),
            LatencyFormat::Text => {
                let text = self.text(result);
                match self.draws {
                    true => screen::redrawn(&text).into_bytes(),
                    false => text.into_bytes(),
                }
            }
        };
        let exported = self.exporter.finish(facts, summary, &self.columns);
        out.extend(exported.iter().flat_map(|text| text.bytes()));
        if let (Some(_), Some(broken)) = (self.asked.cyclictest, &self.broken) {
            out.extend(self.cyclictest.broke(broken).into_bytes());
            let stacks = self.asked.stacks.unwrap_or_default();
            let why = analysis::report(result, stacks);
            let lines = why.lines().filter(|line| !line.is_empty());
            out.extend(lines.flat_map(|line| format!("# {line}\n").into_bytes()));
        }
        // The result must be printed even if an export could not be written.
        let drawn = self.stream.end();
        let written = drawn.and_then(|()| crate::write(&out));
        written.and(exported.map(drop))
    }
}
