//! Output of `vmnoise osnoise trace` and `vmnoise timerlat trace`: the trace line by line during
//! the run, then the last lines of the result. The replay of a recording prints the same bytes.

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Summary, TraceLine};

use super::stream::Stream;
use super::timerlat::analysis;
use super::{caveats, stop};
use crate::run::{Meanwhile, RecentTrace, View, trace_line};

/// Function that renders the report on the gap or wake-up that stopped a run. The text is empty if
/// no limit stopped the run.
type Analysis = fn(&RunFacts, &Summary, &RecentTrace) -> String;

/// View that prints each line as soon as it can no longer change.
#[derive(Debug)]
pub struct Trace {
    quiet: bool,
    analysis: Option<Analysis>,
    stream: Stream,
}

impl Trace {
    /// Creates the view of gaps. With `quiet`, only the last lines of the result are printed.
    pub fn of_gaps(quiet: bool) -> Trace {
        Trace::new(quiet, Some(stop::report))
    }

    /// Creates the view of wake-ups. With `analyzes`, the result contains an analysis of the
    /// wake-up that stopped the run.
    pub fn of_wakeups(quiet: bool, analyzes: bool) -> Trace {
        Trace::new(quiet, analyzes.then_some(analysis::report))
    }

    fn new(quiet: bool, analysis: Option<Analysis>) -> Trace {
        Trace {
            quiet,
            analysis,
            stream: Stream::default(),
        }
    }

    fn print(&mut self, text: &str) {
        if !self.quiet {
            self.stream.print(text);
        }
    }
}

impl View for Trace {
    fn wants_trace(&self) -> bool {
        true
    }

    fn meanwhile(&self) -> Meanwhile {
        match self.quiet {
            true => Meanwhile::Nothing,
            false => Meanwhile::Own,
        }
    }

    fn begin(&mut self, facts: &RunFacts) {
        self.print(&trace_line::header(facts.workload));
    }

    fn trace(&mut self, lines: &[TraceLine]) {
        let text: String = lines.iter().map(trace_line::render).collect();
        self.print(&text);
    }

    fn is_gone(&self) -> bool {
        self.stream.is_gone()
    }

    /// Prints the last lines of the result. This write also reports an earlier error of stdout.
    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        self.stream.end()?;
        let mut end = String::from(if self.quiet { "" } else { "\n" });
        if let Some(analysis) = self.analysis {
            end += &analysis(facts, summary, trace);
        }
        end += &caveats::render(facts, summary);
        super::write(end.as_bytes())
    }
}
