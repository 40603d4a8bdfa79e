//! Who hears of a run: what prints its result, what fills the terminal until then, and who gathers of it.

use std::time::Duration;

use anyhow::Result;
use vmnoise_events::{Event, RunFacts};
use vmnoise_explain::{
    ExitBudget, ExitExplainer, ExitsRun, Explainer, Interval, NamedInterval, PeriodLine, Summary,
    TraceLine, TracedExit,
};

use super::recent_trace::RecentTrace;
pub use crate::feed::sender::FeedReport;

/// How far the steal clock of the machine below each CPU has advanced in a period.
pub type OuterSteal = [(u32, Option<u64>)];

/// One period of gaps or wake-ups, when it is over.
#[derive(Debug)]
pub struct Period<'a> {
    /// Its end, since the start of the run.
    pub since_start: Duration,
    /// What it took from each CPU.
    pub lines: &'a [PeriodLine],
    /// What the machine below took meanwhile.
    pub outer_steal: &'a OuterSteal,
    /// The longest gap of the run so far.
    pub longest: Option<NamedInterval>,
    /// Who is who.
    pub explainer: &'a Explainer,
}

/// What there is to see of a run before its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// What the view shows.
    Own,
    /// Nothing of the view: how long it still takes.
    Time,
    /// Nothing, as it was asked for.
    Nothing,
}

/// Hears of a run, shows it or prints its result: each does what it is there for.
pub trait View {
    /// Whether the trace is to be reported, and its last lines kept for the end.
    fn wants_trace(&self) -> bool {
        false
    }
    /// What there is to see while the run goes on.
    fn meanwhile(&self) -> Meanwhile {
        Meanwhile::Own
    }
    /// The workload measures from here on.
    fn begin(&mut self, _facts: &RunFacts) {}
    /// An event of a recording that is about to be explained.
    fn event(&mut self, _event: &Event) {}
    /// A gap or a wake-up was explained.
    fn interval(&mut self, _interval: &Interval) {}
    /// An exit of a vCPU was explained.
    fn exit(&mut self, _exit: &ExitBudget) {}
    /// Lines of the trace became certain.
    fn trace(&mut self, _lines: &[TraceLine]) {}
    /// Exits of the trace became certain.
    fn traced_exits(&mut self, _exits: &[TracedExit]) {}
    /// A period of gaps or wake-ups ended.
    fn period(&mut self, _period: &Period<'_>) {}
    /// A period of exits ended.
    fn exits_so_far(&mut self, _measured: Duration, _exits: &ExitExplainer) {}
    /// A turn of the loop that drains events, many times a second. Whoever waits here makes
    /// events get lost.
    fn turn(&mut self) {}
    /// No turn follows: the run ends. It is dropped once nothing is left to drain.
    fn end(&mut self) {}
    /// Something went wrong, and the run goes on.
    fn notice(&mut self, _message: &str) {}
    /// Whether nobody can see what is shown any more, or wants to: the run may end.
    fn is_gone(&self) -> bool {
        false
    }
    /// Whether all that was asked for has been measured: the run may end before its time.
    fn is_complete(&self) -> bool {
        false
    }
    /// A limit was hit after so long, and its actions are carried out next.
    ///
    /// # Errors
    /// If stdout cannot be written.
    fn acts(&mut self, _measured: Duration) -> Result<()> {
        Ok(())
    }
    /// A run of gaps or wake-ups is over: prints its result on stdout. `trace` has the last
    /// lines, if they were wanted.
    ///
    /// # Errors
    /// If stdout cannot be written.
    fn finish(&mut self, _: &RunFacts, _: &Summary, _trace: &RecentTrace) -> Result<()> {
        Ok(())
    }
    /// A run over vCPUs is over: prints its result on stdout, and what became of the feeds.
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

/// Begins to fill the terminal with a view of a run, which stays until it is dropped: that waits until
/// the terminal has taken all of it. Where the terminal refuses, that is said and there is none.
pub type Frame = fn(&RunFacts) -> Option<Box<dyn View>>;
