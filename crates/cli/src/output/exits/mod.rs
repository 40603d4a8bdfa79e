//! Results about the exits of vCPUs, for people and programs, from a live run or a recording.

mod caveats;
mod document;
#[cfg(test)]
pub mod fixtures;
pub mod hist;
mod longest;
pub mod parts;
mod powers;
#[cfg(test)]
mod reported_tests;
#[cfg(test)]
mod tests;
mod timeline;
mod top;
mod vm_noise;

use std::time::Duration;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{ExitExplainer, ExitsRun, TracedExit};

pub use self::caveats::without_probes;
use self::document::ExitsDocument;
use self::hist::ExitsHistOptions;
pub use self::top::largest;
use super::json;
use super::stream::Stream;
use crate::output::format::Format;
use crate::run::{FeedReport, Meanwhile, View};

/// Layout of a result about exits.
#[derive(Debug, Clone, Copy)]
pub enum Layout {
    /// Tables by vCPU and by reason. With [`Meanwhile::Own`], the terminal shows them during the
    /// run, too.
    Top(Meanwhile),
    /// Histogram.
    Hist(ExitsHistOptions),
    /// One line for each exit.
    Trace,
}

/// View of a run that measures exits.
#[derive(Debug)]
pub struct ExitsView {
    layout: Layout,
    format: Format,
    stream: Stream,
    /// Whether the printed result contains no VM.
    is_empty: bool,
}

impl ExitsView {
    /// Creates a view with this layout.
    pub fn new(layout: Layout, format: Format) -> ExitsView {
        ExitsView {
            layout,
            format,
            stream: Stream::default(),
            is_empty: false,
        }
    }

    /// Returns whether the printed result contains no VM.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn text(&self, measured: Duration, run: &ExitsRun, feeds: &[FeedReport]) -> String {
        let (mut out, rests_on) = match self.layout {
            Layout::Top(_) => (top::render(measured, &run.exits), true),
            Layout::Hist(histogram) => {
                let text = hist::render(measured, &run.exits, histogram);
                (text, !histogram.frame.no_summary)
            }
            Layout::Trace => (String::new(), true),
        };
        out += &timeline::render(&run.longest);
        if rests_on {
            out += "\n";
            out += &caveats::render(run, feeds);
        }
        out
    }
}

impl View for ExitsView {
    fn wants_trace(&self) -> bool {
        matches!(self.layout, Layout::Trace)
    }

    fn meanwhile(&self) -> Meanwhile {
        match self.layout {
            Layout::Top(meanwhile) => meanwhile,
            Layout::Hist(_) => Meanwhile::Time,
            Layout::Trace => Meanwhile::Own,
        }
    }

    fn begin(&mut self, _facts: &RunFacts) {
        if self.wants_trace() {
            self.stream.print(vm_noise::HEADER);
        }
    }

    fn traced_exits(&mut self, exits: &[TracedExit]) {
        let text: String = exits.iter().map(vm_noise::lines).collect();
        self.stream.print(&text);
    }

    fn exits_so_far(&mut self, measured: Duration, exits: &ExitExplainer) {
        if matches!(self.layout, Layout::Top(Meanwhile::Own)) {
            self.stream.redraw(&top::render(measured, &exits.exits()));
        }
    }

    fn is_gone(&self) -> bool {
        self.stream.is_gone()
    }

    fn finish_exits(
        &mut self,
        facts: &RunFacts,
        measured: Duration,
        run: &ExitsRun,
        feeds: &[FeedReport],
    ) -> Result<()> {
        self.stream.end()?;
        let mut out = Vec::new();
        match self.format {
            Format::Text => out.extend(self.text(measured, run, feeds).bytes()),
            Format::Json => {
                json::write(&mut out, &ExitsDocument::new(facts, measured, run, feeds))?
            }
        }
        super::write(&out)?;
        self.is_empty = run.exits.vms.is_empty();
        Ok(())
    }
}
