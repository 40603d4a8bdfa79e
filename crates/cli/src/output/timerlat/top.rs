//! `vmnoise timerlat top`: one table, while the run goes on and at its end.

use std::io::IsTerminal;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Interval, Summary, Wakeups};

use super::columns::Columns;
use super::cyclictest::Cyclictest;
use super::document::LatencyDocument;
use super::exports::Exporter;
use super::{analysis, budget, rtla_table};
use crate::args::{LatencyFormat, TimerlatTopArguments};
use crate::output::tree::tree;
use crate::output::{fed, honesty, json, rtla, screen};
use crate::run::recent_trace::RecentTrace;
use crate::run::view::{Meanwhile, Period, View};

/// Redraws the table each second on a terminal; prints it once elsewhere.
#[derive(Debug)]
pub struct Top {
    format: LatencyFormat,
    quiet: bool,
    draws: bool,
    keeps_trace: bool,
    analyzes: bool,
    /// Only the analysis is wanted.
    aa_only: bool,
    nano: bool,
    columns: Columns,
    cyclictest: Cyclictest,
    exporter: Exporter,
}

impl Top {
    /// A table for these arguments.
    pub fn new(arguments: &TimerlatTopArguments) -> Top {
        let common = &arguments.common;
        let is_text = arguments.format == LatencyFormat::Text;
        let aa_only = arguments.aa_only.is_some();
        Top {
            format: arguments.format,
            quiet: arguments.quiet,
            draws: is_text && !arguments.quiet && !aa_only && std::io::stdout().is_terminal(),
            keeps_trace: aa_only || common.keeps_trace(),
            analyzes: !common.no_aa,
            aa_only,
            nano: common.nano,
            columns: Columns::default(),
            cyclictest: Cyclictest::new(common.nano),
            exporter: Exporter::new(&arguments.exports, common.nano),
        }
    }

    /// Shows no table while the run goes on: a frame is there instead.
    pub fn be_silent(&mut self) {
        self.draws = false;
    }

    /// Whether the table is shown while the run goes on.
    pub fn draws(&self) -> bool {
        self.draws
    }

    /// The same from a recording.
    pub fn of_recording(format: LatencyFormat) -> Top {
        Top {
            format,
            quiet: true,
            draws: false,
            keeps_trace: true,
            analyzes: true,
            aa_only: false,
            nano: false,
            columns: Columns::default(),
            cyclictest: Cyclictest::new(false),
            exporter: Exporter::default(),
        }
    }

    fn text(&self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> String {
        let mut out = String::new();
        if self.analyzes {
            out += &analysis::report(facts, summary, trace);
        }
        if self.aa_only {
            return out;
        }
        out += &rtla_table::render(&self.columns, rtla::measured(summary), self.nano);
        if let Some(wakeups) = &summary.wakeups {
            out += &worst(wakeups);
            out += &budget::sums(wakeups);
        }
        out += &fed::render(summary);
        out + &format!("\n{}", honesty::render(facts, summary))
    }
}

/// The latest wake-up.
pub fn worst(wakeups: &Wakeups) -> String {
    let tree = |worst| format!("\nThe longest latency\n{}", tree(worst));
    wakeups.worst.first().map(tree).unwrap_or_default()
}

impl View for Top {
    fn wants_trace(&self) -> bool {
        self.keeps_trace
    }

    fn meanwhile(&self) -> Meanwhile {
        match self.draws {
            true => Meanwhile::Own,
            false if self.quiet => Meanwhile::Nothing,
            false => Meanwhile::Time,
        }
    }

    fn begin(&mut self, facts: &RunFacts) {
        // It looks at each task: a recording's are gone, and may be claimed to be thousands.
        if matches!(self.format, LatencyFormat::Cyclictest) {
            self.cyclictest.begin(facts);
        }
        self.exporter.begin(facts);
    }

    fn interval(&mut self, wakeup: &Interval) {
        self.columns.add(wakeup);
        self.exporter.wakeup(wakeup);
    }

    fn period(&mut self, period: &Period<'_>) {
        if self.draws {
            let table = rtla_table::render(&self.columns, period.since_start, self.nano);
            screen::redraw(&table);
        }
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        let mut out = match self.format {
            LatencyFormat::Json => {
                let mut out = Vec::new();
                json::write(&mut out, &LatencyDocument::new(facts, summary))?;
                out
            }
            LatencyFormat::Cyclictest => self.cyclictest.render(facts, &self.columns).into_bytes(),
            LatencyFormat::Text => {
                let text = self.text(facts, summary, trace);
                match self.draws {
                    true => screen::redrawn(&text).into_bytes(),
                    false => text.into_bytes(),
                }
            }
        };
        let exported = self.exporter.finish(facts, summary, &self.columns);
        out.extend(exported.iter().flat_map(|text| text.bytes()));
        // A file that is full costs no result.
        crate::output::write(&out).and(exported.map(drop))
    }
}
