//! What a recording is exported to.

use anyhow::Result;
use vmnoise_events::{Event, SourceId};
use vmnoise_explain::{Budget, ExitsRun, PeriodLine, Summary, TracedExit, Wakeup};
use vmnoise_export::{Encoding, RunTables, Told};

use super::input::Input;
use super::rt_tests::RtTests;
use crate::args::ExportArguments;

/// Who is called what.
pub type Names<'f, 'n> = &'f dyn Fn(SourceId) -> &'n str;

/// What a run came to.
pub enum Ended<'a> {
    /// A run of gaps or wake-ups.
    Gaps(&'a Summary),
    /// A run over vCPUs.
    Exits(&'a ExitsRun),
}

/// Takes what a recording holds, and what it is explained to be.
pub trait Target {
    /// The next event, before it is explained.
    fn see(&mut self, event: &Event) -> Result<()>;
    /// A gap, in the order in which they become certain.
    fn gap(&mut self, _gap: &Budget, _names: Names<'_, '_>) -> Result<()> {
        Ok(())
    }
    /// What each CPU came to between two instants (CLOCK_MONOTONIC, ns).
    fn period(&mut self, _lines: &[PeriodLine], _span_ns: (u64, u64)) -> Result<()> {
        Ok(())
    }
    /// A wake-up of a periodic task.
    fn wakeup(&mut self, _wakeup: &Wakeup, _names: Names<'_, '_>) -> Result<()> {
        Ok(())
    }
    /// An exit of a vCPU.
    fn exit(&mut self, _exit: &TracedExit) -> Result<()> {
        Ok(())
    }
    /// The recording is over.
    fn end(self: Box<Self>, ended: &Ended<'_>) -> Result<()>;
}

/// Everything that was asked for, for this recording.
pub fn of(arguments: &ExportArguments, input: &Input) -> Result<Vec<Box<dyn Target>>> {
    let mut targets: Vec<Box<dyn Target>> = Vec::new();
    let folders = [
        (&arguments.parquet, Encoding::Parquet),
        (&arguments.csv, Encoding::Csv),
    ];
    for (folder, encoding) in folders {
        if let (Some(folder), Some(partition)) = (folder, &input.partition) {
            let tables = RunTables::create(folder, partition, &input.facts, encoding)?;
            targets.push(Box::new(tables));
        }
    }
    if let Some(path) = &arguments.rt_tests {
        targets.push(Box::new(RtTests::new(path, &input.facts)));
    }
    Ok(targets)
}

impl Target for RunTables {
    fn see(&mut self, event: &Event) -> Result<()> {
        RunTables::see(self, event);
        Ok(())
    }

    fn gap(&mut self, gap: &Budget, names: Names<'_, '_>) -> Result<()> {
        Ok(RunTables::gap(self, gap, names)?)
    }

    fn period(&mut self, lines: &[PeriodLine], span_ns: (u64, u64)) -> Result<()> {
        Ok(RunTables::period(self, lines, span_ns)?)
    }

    fn wakeup(&mut self, wakeup: &Wakeup, names: Names<'_, '_>) -> Result<()> {
        Ok(RunTables::wakeup(self, wakeup, names)?)
    }

    fn exit(&mut self, exit: &TracedExit) -> Result<()> {
        Ok(RunTables::exit(self, &exit.exit)?)
    }

    fn end(mut self: Box<Self>, ended: &Ended<'_>) -> Result<()> {
        let told = match ended {
            Ended::Gaps(summary) => Told::from(*summary),
            Ended::Exits(run) => {
                self.reasons(&run.exits)?;
                Told::from(*run)
            }
        };
        Ok(self.finish(told)?)
    }
}
