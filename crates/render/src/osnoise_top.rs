//! Output of `vmnoise osnoise top`: a table during the run, and the same table with more details at
//! the end.

use std::io::IsTerminal;

use anyhow::Result;
use vmnoise_console::as_rtla;
use vmnoise_events::FinishReason;
use vmnoise_explain::NamedInterval;
use vmnoise_views::{
    CpusResult, Meanwhile, News, Period, ResultPart, ResultView, ViewPlan, Watcher,
};

use super::osnoise_table::OsnoiseTable;
use super::stream::Stream;
use super::{caveats, from_feed, rtla, screen, stop, text, tree};
use crate::format::Format;

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

impl Watcher for Top {
    fn see(&mut self, news: News<'_>) {
        match news {
            News::Begin(facts) => self.in_a_guest = facts.host.hypervisor.is_some(),
            News::Period(period) => self.draw(period),
            _ => {}
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        None
    }
}

impl ResultView for Top {
    fn plan(&self) -> ViewPlan {
        ViewPlan {
            keeps_trace: self.keeps_trace,
            meanwhile: match self.draws {
                true => Meanwhile::Own,
                false if self.quiet => Meanwhile::Nothing,
                false => Meanwhile::Time,
            },
        }
    }

    fn print(&mut self, part: ResultPart<'_>) -> Result<()> {
        let ResultPart::Cpus(result) = part else {
            return Ok(());
        };
        let CpusResult { facts, summary, .. } = result;
        if self.format == Format::Json {
            return super::print(facts, summary, Format::Json);
        }
        self.table.settle(&summary.cpus);
        self.table.close_period(&summary.cpus);
        let mut out = match as_rtla::says_why_no_names() {
            true => caveats::no_names(facts),
            false => String::new(),
        };
        out += &stop::report(&result);
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

impl Top {
    fn draw(&mut self, period: &Period<'_>) {
        self.table.add(period.lines);
        if self.draws() {
            let table = self.table.render(period.since_start, self.in_a_guest);
            let longest = longest_so_far(period.longest.as_ref());
            self.stream.redraw(&(table + &longest));
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
