//! Exports the gaps of each CPU, in LogGOPSim's format for noise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_engine::ExplainedRun;
use vmnoise_explain::Interval;
use vmnoise_export::NoiseTrace;

use super::target::{ExportTarget, Names};

/// Collects the gaps until the end. Times in the files count from the start of the measured span,
/// which is known only at the end.
#[derive(Debug)]
pub struct LogGopSim {
    folder: PathBuf,
    of: String,
    cpus: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl LogGopSim {
    /// Returns an export of `recording` into `folder`.
    pub fn new(folder: &Path, recording: &Path) -> LogGopSim {
        LogGopSim {
            folder: folder.to_owned(),
            of: say::name_of(recording),
            cpus: BTreeMap::new(),
        }
    }
}

impl ExportTarget for LogGopSim {
    fn interval(&mut self, gap: &Interval, _names: Names<'_, '_>) -> Result<()> {
        let gaps_ns = self.cpus.entry(gap.cpu).or_default();
        gaps_ns.push((gap.start_mono_ns, gap.dur_ns));
        Ok(())
    }

    fn end(mut self: Box<Self>, explained: &ExplainedRun) -> Result<()> {
        let ExplainedRun::Cpus(summary) = explained else {
            return Ok(());
        };
        for cpu in &summary.cpus {
            if let Some(measured_ns) = cpu.measured_mono_ns {
                let trace = NoiseTrace {
                    cpu: cpu.cpu,
                    measured_ns,
                    gaps_ns: self.cpus.remove(&cpu.cpu).unwrap_or_default(),
                };
                trace.write(&self.folder, &self.of)?;
            }
        }
        Ok(())
    }
}
