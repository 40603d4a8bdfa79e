//! The trace of `vmnoise osnoise trace`: line by line while it goes on, then what
//! the run ended with. A recording gives the same bytes.

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Summary, TraceLine};

use super::stream::Stream;
use super::view::{Meanwhile, Period, View};
use super::{honesty, stop, trace_line};
use crate::recent_trace::RecentTrace;

/// Prints every line as soon as it is certain.
#[derive(Debug, Default)]
pub struct Trace {
    quiet: bool,
    stream: Stream,
}

impl Trace {
    /// `quiet` prints the end only.
    pub fn new(quiet: bool) -> Trace {
        Trace {
            quiet,
            ..Trace::default()
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

    fn period(&mut self, _period: &Period<'_>) {}

    fn is_gone(&self) -> bool {
        self.stream.is_gone()
    }

    /// Writing once more tells what is wrong with stdout, if it is gone.
    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        let separator = if self.quiet { "" } else { "\n" };
        let end = format!(
            "{separator}{}{}",
            stop::report(facts, summary, trace),
            honesty::render(facts, summary)
        );
        super::write(end.as_bytes())
    }
}
