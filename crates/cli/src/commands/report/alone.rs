//! Reads one recording by itself for the page.

use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_engine::{ExplainedRun, Explaining};
use vmnoise_events::{MeasuringCommand, RunFacts, VcpuId};
use vmnoise_explain::{LongestExit, NamedPiece};
use vmnoise_render::caveats;
use vmnoise_render::exits::without_probes;
use vmnoise_report::{Bar, KernelSide, LONGEST, ReportedRun, RunOutcome};

use super::gatherer::{Gatherer, scenes};
use super::left::Left;
use super::vcpu_names::vcpu_names;
use super::{Read, ended, sentences, with_left_out};
use crate::commands::replay::ReplayedRecording;

/// Explains a recording. A second pass finds the tasks that ran inside the longest gaps. The
/// longest exits need no second pass, because they already have their pieces.
pub fn run(path: &Path) -> Result<Read> {
    let mut recording = ReplayedRecording::open_file(path)?;
    let mut facts = recording.facts.clone();
    facts.options.top = LONGEST;
    let mut explaining = Explaining::new(&facts, false);
    let mut gatherer = Gatherer {
        witnesses: facts.witnesses,
        left: looks_at_all(&facts).then(Left::default),
        ..Gatherer::default()
    };
    recording.each(|event| {
        gatherer.event(event);
        explaining.push(event, &mut |news| gatherer.see(news));
        Ok(())
    })?;
    explaining.run_out(&mut |news| gatherer.see(news));
    let mut notes = Vec::new();
    let whole = ended(recording.ended(), &mut notes);

    let name = |id| explaining.source_name(id).to_owned();
    let mut scenes = match facts.workload {
        MeasuringCommand::Exits => Vec::new(),
        _ => scenes(path, facts.workload, &gatherer.gathering, name)?,
    };
    let Gatherer {
        gathering,
        vcpus,
        left,
        ..
    } = gatherer;
    let gathered = gathering.resolve(name);
    let mut lines = Vec::new();
    let (limits, outcome, lane_names) = match explaining.finish() {
        ExplainedRun::Cpus(summary) => {
            lines = left.map_or(lines, |it| it.lines(&summary.cpus, gathered.lanes()));
            let limits = caveats::without_probes(&facts, &summary);
            let outcome = match facts.workload {
                MeasuringCommand::Timerlat => RunOutcome::Wakeups(summary),
                _ => RunOutcome::Gaps(summary),
            };
            let lanes = gathered.lanes().iter();
            (
                limits,
                outcome,
                lanes.map(|cpu| format!("CPU {cpu}")).collect(),
            )
        }
        ExplainedRun::Vcpus(run) => {
            let lanes = gathered.lanes();
            let of = |longest: &LongestExit| {
                let lane = lanes.iter().position(|id| *id == longest.exit.vcpu.id.0)?;
                let bars = longest.pieces.iter().map(bar).collect();
                Some(((lane, longest.exit.exit.start_mono_ns), bars))
            };
            scenes.extend(run.longest.iter().filter_map(of));
            let lane_vcpus = lanes.iter().filter_map(|id| vcpus.get(&VcpuId(*id)));
            let lane_names = vcpu_names(lane_vcpus);
            (without_probes(&run), RunOutcome::Exits(run), lane_names)
        }
    };
    Ok(Read {
        run: ReportedRun {
            file: say::name_of(path),
            lane_names,
            scenes,
            limits: with_left_out(sentences(&limits), &gathered),
            outcome,
            facts: recording.facts,
            gathered,
            left: lines,
            notes,
        },
        whole,
    })
}

/// Returns whether the workload had each CPU at all times outside gaps. This is true if the run
/// measures gaps and did not pause.
fn looks_at_all(facts: &RunFacts) -> bool {
    let has_gaps = !matches!(
        facts.workload,
        MeasuringCommand::Exits | MeasuringCommand::Timerlat
    );
    has_gaps && !facts.options.pauses()
}

fn bar(piece: &NamedPiece) -> Bar {
    Bar {
        side: KernelSide::Host,
        start_mono_ns: piece.start_mono_ns,
        dur_ns: piece.dur_ns(),
        share: piece.share,
        name: piece.name.as_deref().unwrap_or_default().to_owned(),
    }
}
