//! A recording of vCPUs' exits, read for the page.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use vmnoise_events::{Event, Share, Vcpu, VcpuId};
use vmnoise_explain::{ExitBudget, ExitExplainer, LongestExit, Part};
use vmnoise_report::{Bar, Gathering, LONGEST, Moment, Outcome, Run, Side};

use super::{Read, ended, sentences, with_left_out};
use crate::commands::join::Recording;
use crate::output::exits::reservations;
use crate::say;

/// Explains it; the longest exits are told piece by piece as it is.
pub fn run(path: &Path) -> Result<Read> {
    let mut recording = Recording::open(path)?;
    let mut facts = recording.facts.clone();
    facts.options.top = LONGEST;
    let mut explainer = ExitExplainer::new(&facts);
    let mut gathering = Gathering::default();
    let mut vcpus: HashMap<VcpuId, Vcpu> = HashMap::new();
    while let Some(event) = recording.pull() {
        match &event {
            Event::Anchor(anchor) => gathering.time(anchor.mono_ns),
            Event::Vcpu(vcpu) => {
                vcpus.insert(vcpu.id, vcpu.clone());
            }
            _ => {}
        }
        explainer.feed(&event, &mut |budget| see(&mut gathering, &vcpus, budget));
    }
    explainer.run_out(&mut |budget| see(&mut gathering, &vcpus, budget));
    let mut notes = Vec::new();
    let whole = ended(recording.ended(), &mut notes);

    let gathered = gathering.resolve(|id| explainer.source_name(id).to_owned());
    let run = Box::new(explainer.finish());
    let named = |tid: &u32| {
        let vcpu = vcpus.values().find(|vcpu| vcpu.tid == *tid);
        match vcpu.map(|vcpu| (vcpu.number, &vcpu.vm_name)) {
            Some((Some(number), vm)) => format!("vCPU {number} of {vm}"),
            Some((None, vm)) => format!("thread {tid} of {vm}"),
            None => format!("thread {tid}"),
        }
    };
    let lanes = gathered.lanes();
    let scenes = run.longest.iter().filter_map(|longest| {
        let lane = lanes.iter().position(|tid| *tid == longest.exit.vcpu.tid)?;
        Some(((lane, longest.exit.exit.start_mono_ns), bars(longest)))
    });
    Ok(Read {
        run: Run {
            file: say::name_of(path),
            lane_names: lanes.iter().map(named).collect(),
            scenes: scenes.collect(),
            limits: with_left_out(sentences(&reservations(&run)), &gathered),
            outcome: Outcome::Exits(run),
            facts: recording.facts,
            gathered,
            notes,
        },
        whole,
    })
}

/// Without the sleep that its guest asked for.
fn see(gathering: &mut Gathering, vcpus: &HashMap<VcpuId, Vcpu>, budget: &ExitBudget) {
    let asked = |part: &&Part| part.share != Share::Halted;
    let parts: Vec<Part> = budget.parts.iter().filter(asked).copied().collect();
    gathering.see(&Moment {
        lane: vcpus.get(&budget.vcpu).map_or(0, |vcpu| vcpu.tid),
        start_mono_ns: budget.exit.start_mono_ns,
        dur_ns: parts.iter().map(|part| part.ns).sum(),
        parts: &parts,
    });
}

fn bars(longest: &LongestExit) -> Vec<Bar> {
    let pieces = longest.pieces.iter().map(|piece| Bar {
        side: Side::Host,
        start_mono_ns: piece.start_mono_ns,
        dur_ns: piece.dur_ns(),
        share: piece.share,
        name: piece.name.as_deref().unwrap_or_default().to_owned(),
    });
    pieces.collect()
}
