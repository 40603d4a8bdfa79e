//! The trace of `vmnoise timerlat trace`: line by line while it goes on, then what the run
//! ended with. A recording gives the same bytes.

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::{Summary, TraceLine};

use super::analysis;
use crate::args::TimerlatTraceArguments;
use crate::output::stream::Stream;
use crate::output::view::{Meanwhile, Period, View};
use crate::output::{honesty, trace_line};
use crate::recent_trace::RecentTrace;

/// Prints every line as soon as it is certain.
#[derive(Debug)]
pub struct Trace {
    quiet: bool,
    analyzes: bool,
    stream: Stream,
}

impl Trace {
    /// A trace for these arguments.
    pub fn new(arguments: &TimerlatTraceArguments) -> Trace {
        Trace {
            quiet: arguments.quiet,
            analyzes: !arguments.common.no_aa,
            ..Trace::of_recording()
        }
    }

    /// The same from a recording.
    pub fn of_recording() -> Trace {
        Trace {
            quiet: false,
            analyzes: true,
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

    fn period(&mut self, _period: &Period<'_>) {}

    fn is_gone(&self) -> bool {
        self.stream.is_gone()
    }

    fn finish(&mut self, facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> Result<()> {
        let mut end = String::from(if self.quiet { "" } else { "\n" });
        if self.analyzes {
            end += &analysis::report(facts, summary, trace);
        }
        end += &honesty::render(facts, summary);
        crate::output::write(end.as_bytes())
    }
}
