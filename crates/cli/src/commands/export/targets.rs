//! All formats to which a recording is exported.

use anyhow::{Error, Result};
use vmnoise_engine::ExplainedRun;
use vmnoise_explain::Interval;
use vmnoise_export::{Encoding, FoldedStacks, IntervalLog, RunTables, Timeline};
use vmnoise_views::News;

use super::input::ExportInput;
use super::loggopsim::LogGopSim;
use super::rt_tests::RtTests;
use super::target::{ExportTarget, Names};
use crate::args::ExportArguments;

/// All targets of a recording. Collects intervals that become certain, and passes them on.
#[derive(Default)]
pub struct Targets {
    all: Vec<Box<dyn ExportTarget>>,
    /// Intervals that are certain and not passed on yet.
    pub certain: Vec<Interval>,
    fault: Option<Error>,
}

impl Targets {
    /// Creates all requested targets for a single recording.
    pub fn new(arguments: &ExportArguments, input: &ExportInput) -> Result<Targets> {
        let mut targets = Targets::tables(arguments, input)?;
        targets.push_logs(arguments, input)?;
        if let Some(path) = &arguments.rt_tests {
            targets.push(RtTests::new(path, &input.facts));
        }
        if let Some(folder) = &arguments.loggopsim {
            targets.push(LogGopSim::new(folder, &input.path));
        }
        if let Some(path) = &arguments.perfetto {
            targets.push(Timeline::create(path, &input.facts, None)?);
        }
        Ok(targets)
    }

    /// Adds the logs that both a single recording and a joined recording can have.
    pub fn push_logs(&mut self, arguments: &ExportArguments, input: &ExportInput) -> Result<()> {
        if let Some(path) = &arguments.hlog {
            self.push(IntervalLog::create(path, &input.facts)?);
        }
        if let Some(path) = &arguments.folded {
            self.push(FoldedStacks::create(path, &input.facts)?);
        }
        Ok(())
    }

    /// Creates the requested tables of a recording.
    pub fn tables(arguments: &ExportArguments, input: &ExportInput) -> Result<Targets> {
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

    /// Adds a target.
    pub fn push(&mut self, target: impl ExportTarget + 'static) {
        self.all.push(Box::new(target));
    }

    /// Returns whether there is no target.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Calls `on_target` for each target.
    pub fn each(
        &mut self,
        on_target: impl FnMut(&mut Box<dyn ExportTarget>) -> Result<()>,
    ) -> Result<()> {
        self.all.iter_mut().try_for_each(on_target)
    }

    /// Keeps explained intervals, and passes on exits.
    pub fn see(&mut self, news: News<'_>) {
        match news {
            News::Interval(interval) => self.certain.push(interval.clone()),
            News::TracedExits(exits) => {
                let passed =
                    self.each(|target| exits.iter().try_for_each(|exit| target.exit(exit)));
                self.fault = passed.err();
            }
            _ => {}
        }
    }

    /// Passes on the intervals that have become certain.
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

    /// Ends all targets with the recording.
    pub fn end(self, explained: &ExplainedRun) -> Result<()> {
        let mut targets = self.all.into_iter();
        targets.try_for_each(|target| target.end(explained))
    }
}
