//! News of a run.

use std::time::Duration;

use vmnoise_events::RunFacts;
use vmnoise_explain::{
    ExitBudget, ExitExplainer, Explainer, Interval, NamedInterval, PeriodLine, TraceLine,
    TracedExit,
};

/// One piece of news, in the order in which things become known.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// The measurement begins.
    Begin(&'a RunFacts),
    /// A gap or wake-up was explained.
    Interval(&'a Interval),
    /// An exit of a vCPU was explained.
    Exit(&'a ExitBudget),
    /// Lines of the trace are final.
    Trace(&'a [TraceLine]),
    /// Exits of the trace are final.
    TracedExits(&'a [TracedExit]),
    /// A period of gaps or wake-ups ends.
    Period(&'a Period<'a>),
    /// A period of exits ends.
    ExitsPeriod {
        /// Measured time.
        measured: Duration,
        /// All exits so far.
        exits: &'a ExitExplainer,
    },
}

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
