//! Results about the exits of vCPUs, for people and programs, from a live run or a recording.

mod caveats;
mod document;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod hist;
mod longest;
pub(crate) mod parts;
mod powers;
#[cfg(test)]
mod reported_tests;
#[cfg(test)]
mod tests;
mod timeline;
mod top;
mod vm_noise;

use anyhow::Result;
use vmnoise_events::FinishReason;
use vmnoise_views::{Meanwhile, News, ResultPart, ResultView, VcpusResult, ViewPlan, Watcher};

pub use self::caveats::without_probes;
use self::document::ExitsDocument;
use self::hist::ExitsHistOptions;
pub(crate) use self::parts::cpus;
pub(crate) use self::top::largest;
use super::json;
use super::stream::Stream;
use crate::format::Format;

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

    fn text(&self, result: &VcpusResult<'_>) -> String {
        let (measured, run) = (result.measured, result.run);
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
            out += &caveats::render(run, result.feeds);
        }
        out
    }
}

impl Watcher for ExitsView {
    fn see(&mut self, news: News<'_>) {
        match (news, self.layout) {
            (News::Begin(_), Layout::Trace) => self.stream.print(vm_noise::HEADER),
            (News::TracedExits(exits), _) => {
                let text: String = exits.iter().map(vm_noise::lines).collect();
                self.stream.print(&text);
            }
            (News::ExitsPeriod { measured, exits }, Layout::Top(Meanwhile::Own)) => {
                self.stream.redraw(&top::render(measured, &exits.exits()));
            }
            _ => {}
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        self.stream.ends()
    }
}

impl ResultView for ExitsView {
    fn plan(&self) -> ViewPlan {
        ViewPlan {
            keeps_trace: matches!(self.layout, Layout::Trace),
            meanwhile: match self.layout {
                Layout::Top(meanwhile) => meanwhile,
                Layout::Hist(_) => Meanwhile::Time,
                Layout::Trace => Meanwhile::Own,
            },
        }
    }

    fn print(&mut self, part: ResultPart<'_>) -> Result<()> {
        let ResultPart::Vcpus(result) = part else {
            return Ok(());
        };
        self.stream.end()?;
        let mut out = Vec::new();
        match self.format {
            Format::Text => out.extend(self.text(&result).bytes()),
            Format::Json => json::write(&mut out, &ExitsDocument::new(&result))?,
        }
        super::write(&out)?;
        self.is_empty = result.run.exits.vms.is_empty();
        Ok(())
    }
}
