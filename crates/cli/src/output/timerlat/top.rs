//! `vmnoise timerlat top`: one table, while the run goes on and at its end.

use std::io::IsTerminal;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Interval, Summary, Wakeups};

use super::columns::Columns;
use super::cyclictest::Cyclictest;
use super::document::LatencyDocument;
use super::exports::{Exporter, Exports};
use super::{analysis, budget, rtla_table};
use crate::output::format::LatencyFormat;
use crate::output::stream::Stream;
use crate::output::tree::tree;
use crate::output::{caveats, from_feed, json, rtla, screen};
use crate::run::{Meanwhile, Period, RecentTrace, View};

/// What the table is to be.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// How it is printed.
    pub format: LatencyFormat,
    /// Not before the end.
    pub quiet: bool,
    /// In nanoseconds.
    pub nano: bool,
    /// Whether the last lines of the trace may be needed.
    pub keeps_trace: bool,
    /// Whether what stopped the run is analyzed.
    pub analyzes: bool,
    /// Whether that alone is wanted.
    pub aa_only: bool,
}

/// Redraws the table each second on a terminal; prints it once elsewhere.
#[derive(Debug)]
pub struct Top {
    asked: Asked,
    draws: bool,
    columns: Columns,
    cyclictest: Cyclictest,
    exporter: Exporter,
    stream: Stream,
}

impl Top {
    /// Such a table, and what is exported beside it.
    pub fn new(asked: Asked, exports: &Exports) -> Top {
        let Asked {
            format,
            quiet,
            nano,
            aa_only,
            ..
        } = asked;
        let is_shown = format == LatencyFormat::Text && !quiet && !aa_only;
        Top {
            asked,
            draws: is_shown && std::io::stdout().is_terminal(),
            columns: Columns::default(),
            cyclictest: Cyclictest::new(nano),
            exporter: Exporter::new(exports, nano),
            stream: Stream::default(),
        }
    }

    /// The table of a recording.
    pub fn of_recording(format: LatencyFormat) -> Top {
        let asked = Asked {
            format,
            quiet: true,
            nano: false,
            keeps_trace: true,
            analyzes: true,
            aa_only: false,
        };
        Top::new(asked, &Exports::default())
    }

    /// Shows no table while the run goes on: a frame is there instead.
    pub fn be_silent(&mut self) {
        self.draws = false;
    }

    /// Whether the table is shown while the run goes on.
    pub fn draws(&self) -> bool {
        self.draws
    }

    fn text(&self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> String {
        let mut out = String::new();
        if self.asked.analyzes {
            out += &analysis::report(facts, summary, trace);
        }
        if self.asked.aa_only {
            return out;
        }
        out += &rtla_table::render(&self.columns, rtla::measured(summary), self.asked.nano);
        if let Some(wakeups) = &summary.wakeups {
            out += &worst(wakeups);
            out += &budget::sums(wakeups);
        }
        out += &from_feed::render(summary);
        out + &format!("\n{}", caveats::render(facts, summary))
    }
}

/// The latest wake-up.
pub fn worst(wakeups: &Wakeups) -> String {
    let tree = |worst| format!("\nThe longest latency\n{}", tree(worst));
    wakeups.worst.first().map(tree).unwrap_or_default()
}

impl View for Top {
    fn wants_trace(&self) -> bool {
        self.asked.keeps_trace
    }

    fn meanwhile(&self) -> Meanwhile {
        match self.draws {
            true => Meanwhile::Own,
            false if self.asked.quiet => Meanwhile::Nothing,
            false => Meanwhile::Time,
        }
    }

    fn begin(&mut self, facts: &RunFacts) {
        // It looks at each task: a recording's are gone, and may be claimed to be thousands.
        if matches!(self.asked.format, LatencyFormat::Cyclictest) {
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
            let table = rtla_table::render(&self.columns, period.since_start, self.asked.nano);
            self.stream.redraw(&table);
        }
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        let mut out = match self.asked.format {
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
        let drawn = self.stream.end();
        let written = drawn.and_then(|()| crate::output::write(&out));
        written.and(exported.map(drop))
    }
}
