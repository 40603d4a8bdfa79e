//! How a run is shown: while it goes on, and at its end.

use std::time::Duration;

use anyhow::Result;
use vmnoise_events::{RunFacts, Share};
use vmnoise_explain::{Budget, PeriodLine, Summary};

use crate::args::Format;
use crate::units::human;

/// How far the steal clock of the machine below each CPU has advanced in a period.
pub type OuterSteal = [(u32, Option<u64>)];

/// Shows a run.
pub trait View {
    /// The workload measures from here on.
    fn begin(&mut self);
    /// A gap was explained.
    fn gap(&mut self, _budget: &Budget) {}
    /// A period ended, `since_start` after the start.
    fn period(&mut self, since_start: Duration, lines: &[PeriodLine], outer_steal: &OuterSteal);
    /// The run is over: prints its result on stdout.
    ///
    /// # Errors
    /// If stdout cannot be written.
    fn finish(&mut self, facts: &RunFacts, summary: &Summary) -> Result<()>;
}

/// One line per period and CPU on stderr, then the summary.
#[derive(Debug)]
pub struct Lines {
    /// How the summary is printed.
    pub format: Format,
}

impl View for Lines {
    fn begin(&mut self) {
        eprintln!(
            "{:>9} {:>4} {:>7} {:>12} {:>12} {:>12}  largest shares",
            "time", "CPU", "gaps", "noise", "max gap", "outer steal"
        );
    }

    fn period(&mut self, since_start: Duration, lines: &[PeriodLine], outer_steal: &OuterSteal) {
        for line in lines {
            let outer_ns = outer_steal.iter().find(|(cpu, _)| *cpu == line.cpu);
            eprintln!(
                "{:>7.1} s {:>4} {:>7} {:>12} {:>12} {:>12}  {}",
                since_start.as_secs_f64(),
                line.cpu,
                line.gaps,
                human(line.noise_ns),
                human(line.max_gap_ns),
                outer_ns
                    .and_then(|(_, ns)| *ns)
                    .map_or_else(|| "-".into(), human),
                largest(line),
            );
        }
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary) -> Result<()> {
        super::print(facts, summary, self.format)
    }
}

/// The three shares that took most of the period.
fn largest(line: &PeriodLine) -> String {
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
