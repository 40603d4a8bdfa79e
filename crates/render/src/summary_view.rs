//! Views that print the summary, alone or after a line for each period.

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_events::{FinishReason, Share, human};
use vmnoise_explain::PeriodLine;
use vmnoise_views::{Meanwhile, News, Period, ResultPart, ResultView, ViewPlan, Watcher};

use super::format::Format;

/// Plan of both views, which need no trace.
const PLAN: ViewPlan = ViewPlan {
    keeps_trace: false,
    meanwhile: Meanwhile::Own,
};

/// View that prints only the summary.
#[derive(Debug)]
pub struct Final {
    /// Format of the summary.
    pub format: Format,
}

impl Watcher for Final {
    fn see(&mut self, _news: News<'_>) {}

    fn ends(&self) -> Option<FinishReason> {
        None
    }
}

impl ResultView for Final {
    fn plan(&self) -> ViewPlan {
        PLAN
    }

    fn print(&mut self, part: ResultPart<'_>) -> Result<()> {
        print(part, self.format)
    }
}

/// View that prints a line for each period and CPU on stderr, then the summary.
#[derive(Debug)]
pub struct Lines {
    /// Format of the summary.
    pub format: Format,
}

impl Watcher for Lines {
    fn see(&mut self, news: News<'_>) {
        match news {
            News::Begin(_) => print_head(),
            News::Period(period) => print_period(period),
            _ => {}
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        None
    }
}

impl ResultView for Lines {
    fn plan(&self) -> ViewPlan {
        PLAN
    }

    fn print(&mut self, part: ResultPart<'_>) -> Result<()> {
        print(part, self.format)
    }
}

fn print(part: ResultPart<'_>, format: Format) -> Result<()> {
    match part {
        ResultPart::Cpus(result) => super::print(result.facts, result.summary, format),
        _ => Ok(()),
    }
}

fn print_head() {
    say::print(format_args!(
        "{:>9} {:>4} {:>7} {:>12} {:>12} {:>12}  largest shares",
        "time", "CPU", "gaps", "noise", "max gap", "outer steal"
    ));
}

fn print_period(period: &Period<'_>) {
    for line in period.lines {
        let mut outer_steal = period.outer_steal.iter();
        let outer_ns = outer_steal.find(|(cpu, _)| *cpu == line.cpu);
        say::print(format_args!(
            "{:>7.1} s {:>4} {:>7} {:>12} {:>12} {:>12}  {}",
            period.since_start.as_secs_f64(),
            line.cpu,
            line.gaps,
            human(line.noise_ns),
            human(line.max_gap_ns),
            outer_ns
                .and_then(|(_, ns)| *ns)
                .map_or_else(|| "-".into(), human),
            largest(line),
        ));
    }
}

/// Formats the three largest shares of the period.
pub fn largest(line: &PeriodLine) -> String {
    let known = line
        .shares
        .iter()
        .filter_map(|(share, ns)| Some((share, ns?)));
    let mut shares: Vec<(Share, u64)> = known.filter(|(_, ns)| *ns > 0).collect();
    shares.sort_by_key(|(share, ns)| (std::cmp::Reverse(*ns), *share));
    let words: Vec<String> = shares
        .iter()
        .take(3)
        .map(|(share, ns)| format!("{share} {}", human(*ns)))
        .collect();
    words.join(", ")
}
