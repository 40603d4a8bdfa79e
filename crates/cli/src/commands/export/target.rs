//! A format to which a recording is exported.

use anyhow::Result;
use vmnoise_events::{Event, SourceId};
use vmnoise_explain::{Interval, PeriodLine, TracedExit};
use vmnoise_export::{FoldedStacks, IntervalLog, Reported, RunTables, Side, Timeline};

use crate::run::Explained;
use crate::say;

/// Returns the name of a source.
pub type Names<'f, 'n> = &'f dyn Fn(SourceId) -> &'n str;

/// Receiver of a recording's events and their explanation.
pub trait Target {
    /// Takes the next event, before it is explained.
    fn see(&mut self, _event: &Event) -> Result<()> {
        Ok(())
    }
    /// Takes the next event of the host with which the recording is joined.
    fn see_host(&mut self, _event: &Event) -> Result<()> {
        Ok(())
    }
    /// Takes a gap or a wake-up, in the order in which they become certain.
    fn interval(&mut self, _interval: &Interval, _names: Names<'_, '_>) -> Result<()> {
        Ok(())
    }
    /// Takes the sums of each CPU in a period (CLOCK_MONOTONIC, ns). All gaps and wake-ups that
    /// became certain in the period were passed before.
    fn period(&mut self, _lines: &[PeriodLine], _span_ns: (u64, u64)) -> Result<()> {
        Ok(())
    }
    /// Takes an exit of a vCPU.
    fn exit(&mut self, _exit: &TracedExit) -> Result<()> {
        Ok(())
    }
    /// Ends the export with the recording.
    fn end(self: Box<Self>, explained: &Explained) -> Result<()>;
}

/// Reports intervals that a timeline lacks.
pub fn warn_of_crowded(count: u64) {
    if count > 0 {
        say::say(format_args!(
            "{count} intervals overlap others of the same kind on the same CPU, which is impossible: \
             the timeline leaves them out"
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
                "{lost_events} events were lost: the stacks do not name the culprits of their time"
            ));
        }
        if self.is_empty() {
            say::say("no time was taken in this recording: the file has no stacks");
        }
        Ok(self.finish()?)
    }
}
