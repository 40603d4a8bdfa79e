//! Traits of those who show a run: printers of its result, and frames that fill the terminal.

use std::time::Duration;

use anyhow::Result;
use vmnoise_events::{FinishReason, RunFacts};
use vmnoise_explain::{ExitsRun, Summary};

use crate::feed_report::FeedReport;
use crate::news::News;
use crate::recent_trace::RecentTrace;

/// Follows a run while it goes on.
pub trait Watcher {
    /// Takes news. A view that waits here causes lost events.
    fn see(&mut self, news: News<'_>);
    /// Returns why the run may end now; `None` if it must go on. `Interrupt` means that the user
    /// has closed the output or cannot see it any more. `Duration` means that everything that the
    /// user asked for has been measured.
    fn ends(&self) -> Option<FinishReason>;
}

/// Prints the result of a run.
pub trait ResultView: Watcher {
    /// Returns the needs of the view, which do not change during the run.
    fn plan(&self) -> ViewPlan;
    /// Prints a part of the result on stdout, if this view has such a part.
    ///
    /// # Errors
    /// If stdout cannot be written.
    fn print(&mut self, part: ResultPart<'_>) -> Result<()>;
}

/// Fills the terminal with a view of a run. Dropping the view waits until the terminal has taken
/// all output.
pub trait FrameView: Watcher {
    /// Handles a turn of the loop that drains events. It is called many times a second, and a view
    /// that waits here causes lost events.
    fn turn(&mut self);
    /// Shows a message about a problem that does not end the run.
    fn notice(&mut self, message: &str);
    /// Handles the end of the run. The frame is dropped after the last drain.
    fn end(&mut self);
}

/// Function that begins a frame. If the terminal refuses, the function prints a message and returns
/// `None`.
pub type FrameStart = fn(&RunFacts) -> Option<Box<dyn FrameView>>;

/// Needs of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewPlan {
    /// Whether the view wants the trace. If so, the view receives all lines, and the result
    /// contains the last lines.
    pub keeps_trace: bool,
    /// Display before the result.
    pub meanwhile: Meanwhile,
}

/// Display of a run before its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// The view's own display.
    Own,
    /// Remaining time only.
    Time,
    /// Nothing, at the user's request.
    Nothing,
}

/// Part of a result.
#[derive(Debug, Clone, Copy)]
pub enum ResultPart<'a> {
    /// The part before the actions of a limit, which was hit after this time.
    BeforeActions(Duration),
    /// The result of a run of gaps or wake-ups.
    Cpus(CpusResult<'a>),
    /// The result of a run over vCPUs.
    Vcpus(VcpusResult<'a>),
}

/// Result of a run of gaps or wake-ups.
#[derive(Debug, Clone, Copy)]
pub struct CpusResult<'a> {
    /// Facts of the run.
    pub facts: &'a RunFacts,
    /// Explained result.
    pub summary: &'a Summary,
    /// Last lines of the trace, if they were kept.
    pub trace: &'a RecentTrace,
}

/// Result of a run over vCPUs.
#[derive(Debug, Clone, Copy)]
pub struct VcpusResult<'a> {
    /// Facts of the run.
    pub facts: &'a RunFacts,
    /// Measured time.
    pub measured: Duration,
    /// Explained result.
    pub run: &'a ExitsRun,
    /// Reports on the feeds to guests.
    pub feeds: &'a [FeedReport],
}
