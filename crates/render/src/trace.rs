//! Output of `vmnoise osnoise trace` and `vmnoise timerlat trace`: the trace line by line during
//! the run, then the last lines of the result. The replay of a recording prints the same bytes.

use anyhow::Result;
use vmnoise_events::FinishReason;
use vmnoise_views::{
    CpusResult, Meanwhile, News, ResultPart, ResultView, ViewPlan, Watcher, trace_line,
};

use super::stream::Stream;
use super::timerlat::analysis;
use super::timerlat::at_stop::StackFormat;
use super::{caveats, stop};

/// Kind of the report on the gap or wake-up that stopped a run.
#[derive(Debug, Clone, Copy)]
enum Analysis {
    Gap,
    /// Wake-up, with the format of its kernel stack.
    Wakeup(StackFormat),
}

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
        Trace::new(quiet, Some(Analysis::Gap))
    }

    /// Creates the view of wake-ups. With `stacks`, the format of kernel stacks, the result
    /// contains an analysis of the wake-up that stopped the run.
    pub fn of_wakeups(quiet: bool, stacks: Option<StackFormat>) -> Trace {
        Trace::new(quiet, stacks.map(Analysis::Wakeup))
    }

    fn new(quiet: bool, analysis: Option<Analysis>) -> Trace {
        Trace {
            quiet,
            analysis,
            stream: Stream::default(),
        }
    }

    fn print_lines(&mut self, text: &str) {
        if !self.quiet {
            self.stream.print(text);
        }
    }
}

impl Watcher for Trace {
    fn see(&mut self, news: News<'_>) {
        match news {
            News::Begin(facts) => self.print_lines(&trace_line::header(facts.workload)),
            News::Trace(lines) => {
                let text: String = lines.iter().map(trace_line::render).collect();
                self.print_lines(&text);
            }
            _ => {}
        }
    }

    fn ends(&self) -> Option<FinishReason> {
        self.stream.ends()
    }
}

impl ResultView for Trace {
    fn plan(&self) -> ViewPlan {
        ViewPlan {
            keeps_trace: true,
            meanwhile: match self.quiet {
                true => Meanwhile::Nothing,
                false => Meanwhile::Own,
            },
        }
    }

    /// Prints the last lines of the result. This write also reports an earlier error of stdout.
    fn print(&mut self, part: ResultPart<'_>) -> Result<()> {
        let ResultPart::Cpus(result) = part else {
            return Ok(());
        };
        let CpusResult { facts, summary, .. } = result;
        self.stream.end()?;
        let mut end = String::from(if self.quiet { "" } else { "\n" });
        end += &match self.analysis {
            None => String::new(),
            Some(Analysis::Gap) => stop::report(&result),
            Some(Analysis::Wakeup(stacks)) => analysis::report(&result, stacks),
        };
        end += &caveats::render(facts, summary);
        super::write(end.as_bytes())
    }
}
