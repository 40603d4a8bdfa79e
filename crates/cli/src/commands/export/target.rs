//! What a recording is exported to.

use anyhow::{Error, Result};
use vmnoise_events::{Event, SourceId};
use vmnoise_explain::{Interval, PeriodLine, TracedExit};
use vmnoise_export::{Encoding, RunTables, Side, Timeline, Told};

use super::input::Input;
use super::rt_tests::RtTests;
use crate::args::ExportArguments;
use crate::run::explaining::Explained;
use crate::run::view::View;
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
    /// What each CPU came to between two instants (CLOCK_MONOTONIC, ns).
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

/// All that a recording is exported to.
#[derive(Default)]
pub struct Targets {
    all: Vec<Box<dyn Target>>,
    /// Certain, and not passed on yet.
    pub certain: Vec<Interval>,
    fault: Option<Error>,
}

impl Targets {
    /// Everything that was asked for, for this recording by itself.
    pub fn new(arguments: &ExportArguments, input: &Input) -> Result<Targets> {
        let mut targets = Targets::tables(arguments, input)?;
        if let Some(path) = &arguments.rt_tests {
            targets.push(RtTests::new(path, &input.facts));
        }
        if let Some(path) = &arguments.perfetto {
            targets.push(Timeline::create(path, &input.facts, None)?);
        }
        Ok(targets)
    }

    /// Its tables.
    pub fn tables(arguments: &ExportArguments, input: &Input) -> Result<Targets> {
        let mut targets = Targets::default();
        let folders = [
            (&arguments.parquet, Encoding::Parquet),
            (&arguments.csv, Encoding::Csv),
            (&arguments.spreadsheet_csv, Encoding::SpreadsheetCsv),
        ];
        for (folder, encoding) in folders {
            if let (Some(folder), Some(partition)) = (folder, &input.partition) {
                let tables = RunTables::create(folder, partition, &input.facts, encoding)?;
                targets.push(tables);
            }
        }
        Ok(targets)
    }

    /// One more.
    pub fn push(&mut self, target: impl Target + 'static) {
        self.all.push(Box::new(target));
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Does so with each.
    pub fn each(
        &mut self,
        on_target: impl FnMut(&mut Box<dyn Target>) -> Result<()>,
    ) -> Result<()> {
        self.all.iter_mut().try_for_each(on_target)
    }

    /// Passes on what has become certain.
    pub fn settle(&mut self, names: Names<'_, '_>) -> Result<()> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        for target in &mut self.all {
            for interval in &self.certain {
                target.interval(interval, names)?;
            }
        }
        self.certain.clear();
        Ok(())
    }

    /// The recording is over.
    pub fn end(self, explained: &Explained) -> Result<()> {
        let mut targets = self.all.into_iter();
        targets.try_for_each(|target| target.end(explained))
    }
}

impl View for Targets {
    fn interval(&mut self, interval: &Interval) {
        self.certain.push(interval.clone());
    }

    fn traced_exits(&mut self, exits: &[TracedExit]) {
        let passed = self.each(|target| exits.iter().try_for_each(|exit| target.exit(exit)));
        self.fault = passed.err();
    }
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

    fn end(self: Box<Self>, _explained: &Explained) -> Result<()> {
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
        let told = match explained {
            Explained::Cpus(summary) => Told::from(&**summary),
            Explained::Vcpus(run) => {
                self.reasons(&run.exits)?;
                Told::from(&**run)
            }
        };
        Ok(self.finish(told)?)
    }
}
