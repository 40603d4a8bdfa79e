//! Output of `vmnoise osnoise top`: a table during the run, and the same table with more details at
//! the end.

use std::io::IsTerminal;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{NamedInterval, Summary};

use super::osnoise_table::OsnoiseTable;
use super::stream::Stream;
use super::{caveats, from_feed, rtla, screen, stop, text, tree};
use crate::called_as;
use crate::output::format::Format;
use crate::run::{Meanwhile, Period, RecentTrace, View};

/// Maximum number of parts of the longest gap that are shown during the run.
const LIVE_PARTS: usize = 8;

/// View that redraws the table after each period if stdout is a terminal. Otherwise it prints the
/// table once, at the end.
#[derive(Debug)]
pub struct Top {
    format: Format,
    quiet: bool,
    draws: bool,
    keeps_trace: bool,
    in_a_guest: bool,
    table: OsnoiseTable,
    stream: Stream,
}

impl Top {
    /// Creates the view. With `quiet`, the table appears only at the end. With `keeps_trace`, the
    /// run keeps the last lines of its trace.
    pub fn new(format: Format, quiet: bool, keeps_trace: bool) -> Top {
        Top {
            format,
            quiet,
            draws: !quiet && format == Format::Text && std::io::stdout().is_terminal(),
            keeps_trace,
            in_a_guest: false,
            table: OsnoiseTable::default(),
            stream: Stream::default(),
        }
    }

    /// Turns off the table during the run, because the live view fills the terminal.
    pub fn be_silent(&mut self) {
        self.draws = false;
    }

    /// Returns whether the table is shown during the run.
    pub fn draws(&self) -> bool {
        self.draws
    }
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
        self.in_a_guest = facts.host.hypervisor.is_some();
    }

    fn period(&mut self, period: &Period<'_>) {
        self.table.add(period.lines);
        if self.draws() {
            let table = self.table.render(period.since_start, self.in_a_guest);
            let longest = longest_so_far(period.longest.as_ref());
            self.stream.redraw(&(table + &longest));
        }
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        if self.format == Format::Json {
            return super::print(facts, summary, Format::Json);
        }
        self.table.settle(&summary.cpus);
        self.table.close_period(&summary.cpus);
        let mut out = match called_as::is_rtla() {
            true => String::new(),
            false => caveats::no_names(facts),
        };
        out += &stop::report(facts, summary, trace);
        out += &self.table.render(rtla::measured(summary), self.in_a_guest);
        out += &rtla::hit(summary, "osnoise");
        out += &longest(summary.worst.first());
        out += &from_feed::render(summary);
        out += &format!(
            "\n{}\n{}",
            text::periodic(summary),
            caveats::render(facts, summary)
        );
        self.stream.end()?;
        match self.draws() {
            true => super::write(screen::redrawn(&out).as_bytes()),
            false => super::write(out.as_bytes()),
        }
    }
}

/// Renders the longest gap with few parts, so that the table above stays on the screen.
fn longest_so_far(gap: Option<&NamedInterval>) -> String {
    let Some(gap) = gap else {
        return String::new();
    };
    let (shown, more) = gap.parts.split_at(gap.parts.len().min(LIVE_PARTS));
    let gap = NamedInterval {
        parts: shown.to_vec(),
        ..gap.clone()
    };
    let more = match more.len() {
        0 => String::new(),
        more => format!("   … and {more} smaller\n"),
    };
    longest(Some(&gap)) + &more
}

fn longest(gap: Option<&NamedInterval>) -> String {
    let tree = |gap| format!("\nThe longest gap\n{}", tree::tree(gap));
    gap.map(tree).unwrap_or_default()
}
