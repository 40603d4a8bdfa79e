//! Laws that must hold for the events of any recording that a reader accepts.

use vmnoise_events::{Event, MeasuringCommand, RunFacts};
use vmnoise_explain::ExitExplainer;
use vmnoise_recording::RecordingReader;

#[path = "../../../explain/tests/laws/mod.rs"]
pub(super) mod laws;

use crate::recordings::recording;

pub(super) fn check(bytes: &[u8]) {
    let recording = recording(bytes);
    let Ok(mut reader) = RecordingReader::new(recording.as_slice()) else {
        return;
    };
    let facts = reader.facts().clone();
    let mut events = Vec::new();
    // Events before a fault are explained too.
    let _ = reader.for_each(&mut |event| events.push(event.clone()));
    match facts.workload {
        MeasuringCommand::Exits => exits(&facts, &events),
        MeasuringCommand::Timerlat => laws::wakeups::obeys_the_law(&facts, &events),
        _ => laws::gaps::obeys_the_law(&facts, &events),
    }
}

fn exits(facts: &RunFacts, events: &[Event]) {
    let mut explainer = ExitExplainer::with_trace(facts);
    let mut budgets = Vec::new();
    for event in events {
        explainer.push(event, &mut |budget| budgets.push(budget.clone()));
        explainer.take_trace();
    }
    explainer.run_out(&mut |budget| budgets.push(budget.clone()));
    explainer.take_trace();
    let run = explainer.finish();
    laws::exits::obeys_the_law(&budgets, &run);
    serde_json::to_string(&run.exits).expect("a summary is plain data");
}
