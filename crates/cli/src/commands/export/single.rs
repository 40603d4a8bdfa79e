//! Export of one recording by itself.

use anyhow::Result;
use vmnoise_engine::Explaining;
use vmnoise_events::MeasuringCommand;

use super::input::ExportInput;
use super::periods::Periods;
use super::targets::Targets;
use crate::commands::replay::ReplayedRecording;

/// Passes each event of a recording, and its explanation, to `targets`. Returns the recording, read
/// to its end.
pub fn export(input: &ExportInput, mut targets: Targets) -> Result<ReplayedRecording<'_>> {
    let mut recording = ReplayedRecording::open(&input.path)?;
    let mut explaining = Explaining::new(
        &input.facts,
        input.facts.workload == MeasuringCommand::Exits,
    );
    let mut periods = Periods::default();
    recording.each(|event| {
        targets.each(|target| target.see(event))?;
        explaining.push(event, &mut |news| targets.see(news));
        targets.settle(&|id| explaining.source_name(id))?;
        match periods.see(event) {
            Some(span_ns) => pass_on_period(&mut explaining, &mut targets, span_ns),
            None => Ok(()),
        }
    })?;
    explaining.run_out(&mut |news| targets.see(news));
    targets.settle(&|id| explaining.source_name(id))?;
    pass_on_period(&mut explaining, &mut targets, periods.rest())?;
    targets.end(&explaining.finish())?;
    Ok(recording)
}

/// Passes on the sums of each CPU in a period. vCPUs have no such sums.
fn pass_on_period(
    explaining: &mut Explaining,
    targets: &mut Targets,
    span_ns: (u64, u64),
) -> Result<()> {
    let lines = match explaining {
        Explaining::Cpus(explainer) => explainer.take_heard_period(),
        Explaining::Vcpus(_) => Vec::new(),
    };
    targets.each(|target| target.period(&lines, span_ns))
}
