//! Exports a recording of `timerlat` as the JSON of rt-tests.

use std::path::Path;

use anyhow::Result;
use vmnoise_engine::ExplainedRun;
use vmnoise_events::RunFacts;
use vmnoise_explain::Interval;
use vmnoise_render::timerlat::columns::CpuColumns;
use vmnoise_render::timerlat::exports::{Exporter, Exports};

use super::target::{ExportTarget, Names};

/// Collects the same figures as a live run with `--json`.
#[derive(Debug)]
pub struct RtTests {
    facts: RunFacts,
    columns: CpuColumns,
    exporter: Exporter,
}

impl RtTests {
    /// Returns an export to this file.
    pub fn new(path: &Path, facts: &RunFacts) -> RtTests {
        let exports = Exports {
            json: Some(path.to_owned()),
            ..Exports::default()
        };
        let mut exporter = Exporter::new(&exports, false);
        exporter.begin(facts);
        RtTests {
            facts: facts.clone(),
            columns: CpuColumns::default(),
            exporter,
        }
    }
}

impl ExportTarget for RtTests {
    fn interval(&mut self, wakeup: &Interval, _names: Names<'_, '_>) -> Result<()> {
        self.columns.add(wakeup);
        self.exporter.wakeup(wakeup);
        Ok(())
    }

    fn end(self: Box<Self>, explained: &ExplainedRun) -> Result<()> {
        if let ExplainedRun::Cpus(summary) = explained {
            self.exporter.finish(&self.facts, summary, &self.columns)?;
        }
        Ok(())
    }
}
