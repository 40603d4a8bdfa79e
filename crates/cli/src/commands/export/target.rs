//! Formats to which a recording is exported.

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_engine::ExplainedRun;
use vmnoise_events::{Event, SourceId};
use vmnoise_explain::{Interval, PeriodLine, TracedExit};
use vmnoise_export::{FoldedStacks, IntervalLog, RunReport, RunTables, Timeline, TrackSide};

/// Function that returns the name of a source.
pub type Names<'f, 'n> = &'f dyn Fn(SourceId) -> &'n str;

/// Receiver of a recording's events and their explanation.
pub trait ExportTarget {
    /// Takes the next event, before it is explained.
    fn see(&mut self, _event: &Event) -> Result<()> {
        Ok(())
    }
    /// Takes the next event of the host with which the recording is joined.
    fn see_host(&mut self, _event: &Event) -> Result<()> {
        Ok(())
    }
    /// Takes the next gap or wake-up, in the order in which they become certain.
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
    fn end(self: Box<Self>, explained: &ExplainedRun) -> Result<()>;
}

/// Reports the number of intervals that a timeline leaves out.
pub fn warn_of_crowded(count: u64) {
    if count > 0 {
        say::say(format_args!(
            "{count} intervals overlap others of the same kind on the same CPU, which is impossible: \
             the timeline leaves them out"
        ));
    }
}

impl ExportTarget for Timeline {
    fn see(&mut self, event: &Event) -> Result<()> {
        Ok(Timeline::see(self, TrackSide::Only, event)?)
    }

    fn interval(&mut self, interval: &Interval, names: Names<'_, '_>) -> Result<()> {
        let span_ns = (interval.start_mono_ns, interval.end_mono_ns());
        let side = TrackSide::Only;
        Ok(Timeline::interval(
            self, side, interval, span_ns, None, names,
        )?)
    }

    fn period(&mut self, lines: &[PeriodLine], span_ns: (u64, u64)) -> Result<()> {
        Ok(Timeline::period(self, TrackSide::Only, lines, span_ns)?)
    }

    fn exit(&mut self, exit: &TracedExit) -> Result<()> {
        Ok(Timeline::exit(self, TrackSide::Only, exit)?)
    }

    fn end(mut self: Box<Self>, explained: &ExplainedRun) -> Result<()> {
        if let ExplainedRun::Cpus(summary) = explained
            && let Some(origin_ns) = summary.origin_mono_ns
        {
            self.origin(origin_ns)?;
        }
        warn_of_crowded(self.finish()?);
        Ok(())
    }
}

impl ExportTarget for RunTables {
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

    fn end(mut self: Box<Self>, explained: &ExplainedRun) -> Result<()> {
        let reported = match explained {
            ExplainedRun::Cpus(summary) => {
                self.cpus(&summary.cpus)?;
                RunReport::from(&**summary)
            }
            ExplainedRun::Vcpus(run) => {
                self.reasons(&run.exits)?;
                RunReport::from(&**run)
            }
        };
        Ok(self.finish(reported)?)
    }
}

impl ExportTarget for IntervalLog {
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

    fn end(self: Box<Self>, explained: &ExplainedRun) -> Result<()> {
        let (lost_events, complete) = match explained {
            ExplainedRun::Cpus(summary) => (summary.lost_events, summary.complete),
            ExplainedRun::Vcpus(run) => (run.lost_events, run.complete),
        };
        Ok(self.finish(lost_events, complete)?)
    }
}

impl ExportTarget for FoldedStacks {
    fn interval(&mut self, interval: &Interval, names: Names<'_, '_>) -> Result<()> {
        FoldedStacks::interval(self, interval, names);
        Ok(())
    }

    fn exit(&mut self, exit: &TracedExit) -> Result<()> {
        FoldedStacks::exit(self, exit);
        Ok(())
    }

    fn end(mut self: Box<Self>, explained: &ExplainedRun) -> Result<()> {
        let lost_events = match explained {
            ExplainedRun::Cpus(summary) => summary.lost_events,
            ExplainedRun::Vcpus(run) => {
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
