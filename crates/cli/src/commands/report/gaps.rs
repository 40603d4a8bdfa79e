//! A recording of gaps or of wake-ups, read for the page.

use std::path::Path;

use anyhow::Result;
use vmnoise_events::{Event, Workload};
use vmnoise_explain::{Explainer, Interval, Part, by_source};
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
        explainer.feed(&event, &mut |interval| see(&mut gathering, interval));
    }
    explainer.run_out(&mut |interval| see(&mut gathering, interval));
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

/// Takes a gap or wake-up by who had the time, whatever the phase and the CPU of a host.
pub fn see(gathering: &mut Gathering, interval: &Interval) {
    let is_whole = |part: &Part| part.phase.is_none() && part.host_cpu.is_none();
    let together: Vec<Part>;
    let parts = match interval.parts.iter().all(is_whole) {
        true => &interval.parts,
        false => {
            let of_any = interval.parts.iter().map(|part| Part {
                phase: None,
                ..*part
            });
            together = by_source(&of_any.collect::<Vec<Part>>());
            &together
        }
    };
    gathering.see(&Moment {
        lane: interval.cpu,
        start_mono_ns: interval.start_mono_ns,
        dur_ns: interval.dur_ns,
        parts,
    });
}
