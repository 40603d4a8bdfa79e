//! Views that print the summary, alone or after a line for each period.

use anyhow::Result;
use vmnoise_events::{RunFacts, Share};
use vmnoise_explain::{PeriodLine, Summary};

use super::format::Format;
use crate::run::{Period, RecentTrace, View};
use crate::say;
use crate::units::human;

/// View that prints only the summary.
#[derive(Debug)]
pub struct Final {
    /// Format of the summary.
    pub format: Format,
}

impl View for Final {
    fn finish(&mut self, facts: &RunFacts, summary: &Summary, _trace: &RecentTrace) -> Result<()> {
        super::print(facts, summary, self.format)
    }
}

/// View that prints a line for each period and CPU on stderr, then the summary.
#[derive(Debug)]
pub struct Lines {
    /// Format of the summary.
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
