//! One format that a recording is exported to.

use anyhow::Result;
use vmnoise_events::{Event, SourceId};
use vmnoise_explain::{Interval, PeriodLine, TracedExit};
use vmnoise_export::{FoldedStacks, IntervalLog, Reported, RunTables, Side, Timeline};

use crate::run::Explained;
use crate::say;

/// Who is called what.
pub type Names<'f, 'n> = &'f dyn Fn(SourceId) -> &'n str;

/// Takes what a recording holds, and what it is explained to be.
pub trait Target {
    /// The next event, before it is explained.
    fn see(&mut self, _event: &Event) -> Result<()> {
        Ok(())
    }
    /// The next event of the host that the recording is joined with.
    fn see_host(&mut self, _event: &Event) -> Result<()> {
        Ok(())
    }
    /// A gap or a wake-up, in the order in which they become certain.
    fn interval(&mut self, _interval: &Interval, _names: Names<'_, '_>) -> Result<()> {
        Ok(())
    }
    /// What each CPU came to, and that this was all that became certain, between two instants (CLOCK_MONOTONIC, ns).
    fn period(&mut self, _lines: &[PeriodLine], _span_ns: (u64, u64)) -> Result<()> {
        Ok(())
    }
    /// An exit of a vCPU.
    fn exit(&mut self, _exit: &TracedExit) -> Result<()> {
        Ok(())
    }
    /// The recording is over.
    fn end(self: Box<Self>, explained: &Explained) -> Result<()>;
}

/// Says what a timeline lacks.
pub fn warn_of_crowded(count: u64) {
    if count > 0 {
        say::say(format_args!(
            "{count} intervals overlap others of their kind on their CPU, which cannot be: \
             the timeline is without them"
        ));
    }
}

impl Target for Timeline {
    fn see(&mut self, event: &Event) -> Result<()> {
        Ok(Timeline::see(self, Side::Only, event)?)
    }

    fn interval(&mut self, interval: &Interval, names: Names<'_, '_>) -> Result<()> {
        let span_ns = (interval.start_mono_ns, interval.end_mono_ns());
        let side = Side::Only;
        Ok(Timeline::interval(
            self, side, interval, span_ns, None, names,
        )?)
    }

    fn period(&mut self, lines: &[PeriodLine], span_ns: (u64, u64)) -> Result<()> {
        Ok(Timeline::period(self, Side::Only, lines, span_ns)?)
    }

    fn exit(&mut self, exit: &TracedExit) -> Result<()> {
        Ok(Timeline::exit(self, Side::Only, exit)?)
    }

    fn end(mut self: Box<Self>, explained: &Explained) -> Result<()> {
        if let Explained::Cpus(summary) = explained
            && let Some(origin_ns) = summary.origin_mono_ns
        {
            self.origin(origin_ns)?;
        }
        warn_of_crowded(self.finish()?);
        Ok(())
    }
}

impl Target for RunTables {
    fn see(&mut self, event: &Event) -> Result<()> {
        RunTables::see(self, event);
        Ok(())
    }

    fn interval(&mut self, interval: &Interval, names: Names<'_, '_>) -> Result<()> {
        Ok(RunTables::interval(self, interval, names)?)
    }

    fn period(&mut self, lines: &[PeriodLine], span_ns: (u64, u64)) -> Result<()> {
        Ok(RunTables::period(self, lines, span_ns)?)
    }

    fn exit(&mut self, exit: &TracedExit) -> Result<()> {
        Ok(RunTables::exit(self, &exit.exit)?)
    }

    fn end(mut self: Box<Self>, explained: &Explained) -> Result<()> {
        let reported = match explained {
            Explained::Cpus(summary) => {
                self.cpus(&summary.cpus)?;
                Reported::from(&**summary)
            }
            Explained::Vcpus(run) => {
                self.reasons(&run.exits)?;
                Reported::from(&**run)
            }
        };
        Ok(self.finish(reported)?)
    }
}

impl Target for IntervalLog {
    fn interval(&mut self, interval: &Interval, _names: Names<'_, '_>) -> Result<()> {
        IntervalLog::interval(self, interval);
        Ok(())
    }

    fn period(&mut self, _lines: &[PeriodLine], span_ns: (u64, u64)) -> Result<()> {
        Ok(IntervalLog::period(self, span_ns)?)
    }

    fn exit(&mut self, exit: &TracedExit) -> Result<()> {
        IntervalLog::exit(self, exit);
        Ok(())
    }

    fn end(self: Box<Self>, explained: &Explained) -> Result<()> {
        let (lost_events, complete) = match explained {
            Explained::Cpus(summary) => (summary.lost_events, summary.complete),
            Explained::Vcpus(run) => (run.lost_events, run.complete),
        };
        Ok(self.finish(lost_events, complete)?)
    }
}

impl Target for FoldedStacks {
    fn interval(&mut self, interval: &Interval, names: Names<'_, '_>) -> Result<()> {
        FoldedStacks::interval(self, interval, names);
        Ok(())
    }

    fn exit(&mut self, exit: &TracedExit) -> Result<()> {
        FoldedStacks::exit(self, exit);
        Ok(())
    }

    fn end(mut self: Box<Self>, explained: &Explained) -> Result<()> {
        let lost_events = match explained {
            Explained::Cpus(summary) => summary.lost_events,
            Explained::Vcpus(run) => {
                self.counted(&run.exits);
                run.lost_events
            }
        };
        if lost_events > 0 {
            say::say(format_args!(
                "{lost_events} events were lost: who took the time in them has no name in the stacks"
            ));
        }
        if self.is_empty() {
            say::say("nothing was taken in this recording: there are no stacks to write");
        }
        Ok(self.finish()?)
    }
}
