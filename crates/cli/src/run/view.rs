//! Trait of the views of a run. A view prints the result, draws the frame on the terminal, or
//! gathers data.

use std::time::Duration;

use anyhow::Result;
use vmnoise_events::{Event, RunFacts};
use vmnoise_explain::{
    ExitBudget, ExitExplainer, ExitsRun, Explainer, Interval, NamedInterval, PeriodLine, Summary,
    TraceLine, TracedExit,
};

use super::recent_trace::RecentTrace;
pub use crate::feed::sender::FeedReport;

/// Advance of this machine's steal clock on each CPU in a period, in nanoseconds; `None` if
/// unknown.
pub type OuterStealAdvance = [(u32, Option<u64>)];

/// Period of gaps or wake-ups that has just ended.
#[derive(Debug)]
pub struct Period<'a> {
    /// End of the period, since the start of the run.
    pub since_start: Duration,
    /// Time taken from each CPU.
    pub lines: &'a [PeriodLine],
    /// Advance of this machine's steal clock.
    pub outer_steal: &'a OuterStealAdvance,
    /// Longest gap of the run so far.
    pub longest: Option<NamedInterval>,
    /// Explainer, which knows the names of sources.
    pub explainer: &'a Explainer,
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

/// View of a run. Each view implements the methods that it needs.
pub trait View {
    /// Returns whether the view wants the trace. If so, the view receives all lines, and
    /// [`finish`](Self::finish) receives the last lines.
    fn wants_trace(&self) -> bool {
        false
    }
    /// Returns the display before the result.
    fn meanwhile(&self) -> Meanwhile {
        Meanwhile::Own
    }
    /// Handles the beginning of the measurement.
    fn begin(&mut self, _facts: &RunFacts) {}
    /// Handles an event of a recording before it is explained.
    fn event(&mut self, _event: &Event) {}
    /// Handles an explained gap or wake-up.
    fn interval(&mut self, _interval: &Interval) {}
    /// Handles an explained exit of a vCPU.
    fn exit(&mut self, _exit: &ExitBudget) {}
    /// Handles lines of the trace that are final.
    fn trace(&mut self, _lines: &[TraceLine]) {}
    /// Handles exits of the trace that are final.
    fn traced_exits(&mut self, _exits: &[TracedExit]) {}
    /// Handles the end of a period of gaps or wake-ups.
    fn period(&mut self, _period: &Period<'_>) {}
    /// Handles the end of a period of exits.
    fn exits_so_far(&mut self, _measured: Duration, _exits: &ExitExplainer) {}
    /// Handles a turn of the loop that drains events. It is called many times a second, and a view
    /// that waits here causes lost events.
    fn turn(&mut self) {}
    /// Handles the end of the run. The view is dropped after the last drain.
    fn end(&mut self) {}
    /// Handles a message about a problem that does not end the run.
    fn notice(&mut self, _message: &str) {}
    /// Returns whether the user has closed the output or cannot see it any more. If so, the run may
    /// end.
    fn is_gone(&self) -> bool {
        false
    }
    /// Returns whether everything that the user asked for has been measured. If so, the run may end
    /// early.
    fn is_complete(&self) -> bool {
        false
    }
    /// Handles the limit that stopped the run after `measured`, before the actions of the limit are
    /// carried out.
    ///
    /// # Errors
    /// If stdout cannot be written.
    fn acts(&mut self, _measured: Duration) -> Result<()> {
        Ok(())
    }
    /// Handles the end of a run of gaps or wake-ups, and prints its result on stdout. `trace` holds
    /// the last lines of the trace, if the view wants them.
    ///
    /// # Errors
    /// If stdout cannot be written.
    fn finish(&mut self, _: &RunFacts, _: &Summary, _trace: &RecentTrace) -> Result<()> {
        Ok(())
    }
    /// Handles the end of a run over vCPUs, and prints its result and the reports on the feeds on
    /// stdout.
    ///
    /// # Errors
    /// If stdout cannot be written.
    fn finish_exits(
        &mut self,
        _facts: &RunFacts,
        _measured: Duration,
        _exits: &ExitsRun,
        _feeds: &[FeedReport],
    ) -> Result<()> {
        Ok(())
    }
}

/// Function that fills the terminal with a view of a run. If the terminal refuses, the function
/// prints a message and returns `None`. Dropping the view waits until the terminal has taken all
/// output.
pub type FrameStart = fn(&RunFacts) -> Option<Box<dyn View>>;
