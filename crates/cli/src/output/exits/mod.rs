//! Exits as people and programs read them, live or from a recording.

#[cfg(test)]
pub mod fixtures;
mod hist;
mod longest;
pub mod parts;
mod powers;
#[cfg(test)]
mod tests;
mod timeline;
#[cfg(test)]
mod told_tests;
mod top;
mod vm_noise;

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::{LossKind, RunFacts, Rung};
use vmnoise_explain::{ExitsRun, ExitsSummary, Losses, TracedExit};

use self::longest::Longest;
pub use self::parts::cpus;
pub use self::top::largest;
use super::json::Head;
use super::stream::Stream;
use super::{honesty, json, screen};
use crate::args::ExitsHistArguments;
use crate::feed::sender::FeedReport;
use crate::frame::{self, Live, Vcpus};
use crate::output::format::Format;
use crate::progress::{TimeLine, planned};
use crate::say;
use crate::units::human;

/// How exits are shown.
#[derive(Debug, Clone, Copy)]
pub enum Layout<'a> {
    /// Tables by vCPU and by reason.
    Top {
        /// What is shown while the run goes on.
        live: WhileRunning,
    },
    /// A histogram.
    Hist(&'a ExitsHistArguments),
    /// Line by line.
    Trace,
}

/// What tables are while the run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileRunning {
    /// Not there.
    Silent,
    /// Not there, but the time that is left is.
    Timed,
    /// Drawn over what is on the terminal.
    Redrawn,
    /// A frame.
    Framed,
}

impl WhileRunning {
    /// Whether there are tables meanwhile.
    fn is_shown(self) -> bool {
        matches!(self, WhileRunning::Redrawn | WhileRunning::Framed)
    }
}

/// Shows a run over vCPUs.
#[derive(Debug)]
pub struct ExitsView<'a> {
    frame: Option<Live>,
    time: Option<TimeLine>,
    vcpus: Vcpus,
    layout: Layout<'a>,
    format: Format,
    stream: Stream,
}

/// `vmnoise.exits/1`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    measured_ns: u64,
    #[serde(flatten)]
    exits: &'a ExitsSummary,
    longest: Vec<Longest<'a>>,
    /// `None` where no exit was to be told one by one.
    told: Option<u64>,
    unnamed_ns: Option<u64>,
    surplus_kvm_ns: Option<u64>,
    unbounded_kvm_ns: Option<u64>,
    lost_events: u64,
    late_events: u64,
    losses: Losses,
    feeds: &'a [FeedReport],
    rungs: &'a [Rung],
}

impl<'a> ExitsView<'a> {
    /// A view of this kind.
    pub fn new(layout: Layout<'a>, format: Format) -> ExitsView<'a> {
        ExitsView {
            frame: None,
            time: None,
            vcpus: Vcpus::default(),
            layout,
            format,
            stream: Stream::default(),
        }
    }

    /// Whether [`ExitsView::trace`] is to be called.
    pub fn wants_trace(&self) -> bool {
        matches!(self.layout, Layout::Trace)
    }

    /// Whether [`ExitsView::period`] is to be called.
    pub fn wants_periods(&self) -> bool {
        matches!(self.layout, Layout::Top { live } if live.is_shown())
    }

    /// The run begins.
    pub fn begin(&mut self, facts: &RunFacts) {
        match self.layout {
            Layout::Top {
                live: WhileRunning::Framed,
            } => self.frame = Live::begin(frame::EXITS, facts),
            Layout::Top {
                live: WhileRunning::Timed,
            }
            | Layout::Hist(_) => self.time = TimeLine::begin("counted", planned(facts)),
            Layout::Top { .. } | Layout::Trace => {}
        }
        if self.wants_trace() {
            self.stream.print(vm_noise::HEADER);
        }
    }

    /// Exits became certain.
    pub fn trace(&mut self, exits: &[TracedExit]) {
        let text: String = exits.iter().map(vm_noise::lines).collect();
        self.stream.print(&text);
    }

    /// Another second is over.
    pub fn period(&mut self, measured: Duration, exits: &ExitsSummary) {
        match &mut self.frame {
            Some(frame) => frame.show(self.vcpus.period(measured, exits)),
            None => screen::redraw(&top::render(measured, exits)),
        }
    }

    /// A turn of the loop that drains events, as [`super::view::View::turn`].
    pub fn turn(&mut self) {
        if let Some(frame) = &mut self.frame {
            frame.turn();
        }
        if let Some(time) = &mut self.time {
            time.turn();
        }
    }

    /// Something went wrong, and the run goes on or ends.
    pub fn notice(&mut self, message: &str) {
        match (&mut self.frame, &self.time) {
            (Some(frame), _) => frame.notice(message),
            (None, Some(time)) => time.say(message),
            (None, None) => say::say(message),
        }
    }

    /// Nothing is shown live any more.
    pub fn end_live(&mut self) {
        self.frame = None;
        self.time = None;
    }

    /// Whether nobody can see what is shown any more: the run may end.
    pub fn is_gone(&self) -> bool {
        self.stream.is_gone() || self.frame.as_ref().is_some_and(Live::is_over)
    }

    /// Prints the result.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub fn finish(
        &mut self,
        facts: &RunFacts,
        measured: Duration,
        run: &ExitsRun,
        feeds: &[FeedReport],
    ) -> Result<()> {
        self.stream.end()?;
        match self.format {
            Format::Text => super::write(self.text(measured, run, feeds).as_bytes()),
            Format::Json => {
                let document = Document {
                    head: Head::new("vmnoise.exits/1", facts),
                    measured_ns: u64::try_from(measured.as_nanos()).unwrap_or(u64::MAX),
                    exits: &run.exits,
                    longest: run.longest.iter().map(Longest::new).collect(),
                    told: facts.options.trace.then_some(run.told),
                    unnamed_ns: facts.options.trace.then_some(run.unnamed_ns),
                    surplus_kvm_ns: run.surplus_kvm_ns,
                    unbounded_kvm_ns: run.unbounded_kvm_ns,
                    lost_events: run.lost_events,
                    late_events: run.late_events,
                    losses: run.losses,
                    feeds,
                    rungs: &run.rungs,
                };
                let mut out = Vec::new();
                json::write(&mut out, &document)?;
                super::write(&out)
            }
        }
    }

    fn text(&self, measured: Duration, run: &ExitsRun, feeds: &[FeedReport]) -> String {
        let (mut out, rests_on) = match self.layout {
            Layout::Top { .. } => (top::render(measured, &run.exits), true),
            Layout::Hist(arguments) => {
                let text = hist::render(measured, &run.exits, arguments);
                (text, !arguments.frame.no_summary)
            }
            Layout::Trace => (String::new(), true),
        };
        out += &timeline::render(&run.longest);
        if rests_on {
            out += "\n";
            out += &limits(run);
            out += &fed(feeds);
        }
        out
    }
}

/// What guests were told.
fn fed(feeds: &[FeedReport]) -> String {
    let line = |feed: &FeedReport| {
        let to = match (&feed.name, feed.vm) {
            (Some(name), Some(pid)) => format!("VM {name} (pid {pid})"),
            _ => "nobody".to_owned(),
        };
        format!(
            " feed {}: {to}, {} frames in {} writes, {} skipped, {} bytes, {} connections\n",
            feed.feed, feed.frames, feed.writes, feed.skipped, feed.bytes, feed.connections
        )
    };
    feeds.iter().map(line).collect()
}

/// How it was witnessed, and what is missing.
fn limits(run: &ExitsRun) -> String {
    format!("{}\n{}", honesty::HEADING, honesty::rungs(&run.rungs)) + &reservations(run)
}

/// The same without the rungs.
pub fn reservations(run: &ExitsRun) -> String {
    let mut out = String::new();
    if run.losses.get(LossKind::VcpusFull) > 0 {
        out += " vCPUs without room are not counted at all\n";
    }
    if run.told > 0 {
        let unnamed = human(run.unnamed_ns);
        let told = run.told;
        out += &format!(" told one by one: {told} exits; nobody is named for {unnamed} of them\n");
    }
    if let Some(surplus_ns @ 1..) = run.surplus_kvm_ns {
        let surplus = human(surplus_ns);
        out += &format!(
            " {surplus} of kvm in these is more than KVM usually takes for the same reason: it may be somebody's that nobody witnessed\n"
        );
    }
    out += &honesty::unbounded_kvm(run.unbounded_kvm_ns.unwrap_or(0));
    let by_kind = honesty::by_kind(&run.losses);
    out += &format!(" lost events: {}{by_kind}\n", run.lost_events);
    out + &honesty::late(run.late_events)
}
