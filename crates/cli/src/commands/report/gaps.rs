//! A recording of gaps or of wake-ups, read for the page.

use std::path::Path;

use anyhow::Result;
use vmnoise_events::{Event, Workload};
use vmnoise_explain::{Budget, Explainer, Part, Wakeup, by_source};
use vmnoise_report::{Gathering, LONGEST, Moment, Outcome, Run, Scenes};

use super::{Read, ended, scenes, sentences, with_left_out};
use crate::commands::join::Recording;
use crate::output::honesty;
use crate::say;

/// Explains it, and finds out in a second pass what ran inside the longest.
pub fn run(path: &Path) -> Result<Read> {
    let mut recording = Recording::open(path)?;
    let mut facts = recording.facts.clone();
    facts.options.top = LONGEST;
    let mut explainer = Explainer::new(&facts);
    let mut gathering = Gathering::default();
    while let Some(event) = recording.pull() {
        if let Event::Anchor(anchor) = &event {
            gathering.time(anchor.mono_ns);
        }
        explainer.feed(&event, &mut |budget| gathering.see(&moment(budget)));
        late(&mut explainer, &mut gathering);
    }
    explainer.run_out(&mut |budget| gathering.see(&moment(budget)));
    late(&mut explainer, &mut gathering);
    let mut notes = Vec::new();
    let whole = ended(recording.ended(), &mut notes);

    let longest = gathering.longest();
    let lane = |place| gathering.lane_number(place);
    let mut seen = Scenes::new(facts.workload, &longest, |spike| lane(spike.lane));
    scenes(path, &mut seen)?;
    let seen = seen.finish(|id| explainer.source_name(id).to_owned());
    let places = longest
        .iter()
        .map(|spike| (spike.lane, spike.start_mono_ns));
    let scenes = places.zip(seen).collect();
    let gathered = gathering.resolve(|id| explainer.source_name(id).to_owned());
    let lane_names = gathered
        .lanes()
        .iter()
        .map(|cpu| format!("CPU {cpu}"))
        .collect();
    let summary = Box::new(explainer.finish());
    Ok(Read {
        run: Run {
            file: say::name_of(path),
            limits: with_left_out(
                sentences(&honesty::reservations(&facts, &summary)),
                &gathered,
            ),
            outcome: match facts.workload {
                Workload::Timer => Outcome::Wakeups(summary),
                _ => Outcome::Gaps(summary),
            },
            facts: recording.facts,
            gathered,
            lane_names,
            scenes,
            notes,
        },
        whole,
    })
}

/// A gap as a moment.
pub fn moment(budget: &Budget) -> Moment<'_> {
    Moment {
        lane: budget.cpu,
        start_mono_ns: budget.start_mono_ns,
        dur_ns: budget.dur_ns,
        parts: &budget.parts,
    }
}

/// The wake-ups that have become certain.
fn late(explainer: &mut Explainer, gathering: &mut Gathering) {
    for wakeup in explainer.take_wakeups() {
        see(gathering, &wakeup);
    }
}

/// Takes a wake-up by who had the time, whatever the phase.
pub fn see(gathering: &mut Gathering, wakeup: &Wakeup) {
    let parts = wakeup.parts.iter().map(|part| Part {
        phase: None,
        ..*part
    });
    let parts: Vec<Part> = parts.collect();
    gathering.see(&Moment {
        lane: wakeup.cpu,
        start_mono_ns: wakeup.expiry_mono_ns,
        dur_ns: wakeup.latency_ns,
        parts: &by_source(&parts),
    });
}
