//! How a run is shown: while it goes on, and at its end.

use std::time::Duration;

use anyhow::Result;
use vmnoise_events::{RunFacts, Share};
use vmnoise_explain::{Explainer, Interval, NamedInterval, PeriodLine, Summary, TraceLine};

use crate::output::format::Format;
use crate::recent_trace::RecentTrace;
use crate::say;
use crate::units::human;

/// How far the steal clock of the machine below each CPU has advanced in a period.
pub type OuterSteal = [(u32, Option<u64>)];

/// One period, when it is over.
#[derive(Debug)]
pub struct Period<'a> {
    /// Its end, since the start of the run.
    pub since_start: Duration,
    /// What it took from each CPU.
    pub lines: &'a [PeriodLine],
    /// What the machine below took meanwhile.
    pub outer_steal: &'a OuterSteal,
    /// The longest gap of the run so far.
    pub longest: Option<NamedInterval>,
    /// Who is who.
    pub explainer: &'a Explainer,
}

/// What there is to see of a run before its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// What the view shows.
    Own,
    /// Nothing of the view: how long it still takes.
    Time,
    /// Nothing, as it was asked for.
    Nothing,
}

/// Shows a run.
pub trait View {
    /// Whether [`View::trace`] is to be called, and the last lines kept for the end.
    fn wants_trace(&self) -> bool {
        false
    }
    /// What there is to see while the run goes on.
    fn meanwhile(&self) -> Meanwhile {
        Meanwhile::Own
    }
    /// The workload measures from here on.
    fn begin(&mut self, facts: &RunFacts);
    /// A gap or a wake-up was explained.
    fn interval(&mut self, _interval: &Interval) {}
    /// Lines of the trace became certain.
    fn trace(&mut self, _lines: &[TraceLine]) {}
    /// A period ended.
    fn period(&mut self, period: &Period<'_>);
    /// A turn of the loop that drains events, many times a second. Whoever waits here makes
    /// events get lost.
    fn turn(&mut self) {}
    /// Something went wrong, and the run goes on.
    fn notice(&mut self, message: &str) {
        say::say(message);
    }
    /// Whether a terminal is drawn on, so that others may not write there.
    fn draws_live(&self) -> bool {
        false
    }
    /// Nothing is shown live any more: the run ends, or it never began.
    fn end_live(&mut self) {}
    /// Whether nobody can see what is shown any more, or wants to: the run may end.
    fn is_gone(&self) -> bool {
        false
    }
    /// The run is over: prints its result on stdout. `trace` has the last lines, if
    /// they were wanted.
    ///
    /// # Errors
    /// If stdout cannot be written.
    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()>;
}

/// Only the summary, at the end.
#[derive(Debug)]
pub struct Final {
    /// How it is printed.
    pub format: Format,
}

impl View for Final {
    fn begin(&mut self, _facts: &RunFacts) {}

    fn period(&mut self, _period: &Period<'_>) {}

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, _trace: &RecentTrace) -> Result<()> {
        super::print(facts, summary, self.format)
    }
}

/// One line per period and CPU on stderr, then the summary.
#[derive(Debug)]
pub struct Lines {
    /// How the summary is printed.
    pub format: Format,
}

impl View for Lines {
    fn begin(&mut self, _facts: &RunFacts) {
        say::print(format_args!(
            "{:>9} {:>4} {:>7} {:>12} {:>12} {:>12}  largest shares",
            "time", "CPU", "gaps", "noise", "max gap", "outer steal"
        ));
    }

    fn period(&mut self, period: &Period<'_>) {
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

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, _trace: &RecentTrace) -> Result<()> {
        super::print(facts, summary, self.format)
    }
}

/// The three shares that took most of the period.
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
