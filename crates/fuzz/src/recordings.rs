//! Makes a recording with valid checksums from any bytes.

use vmnoise_events::{Event, RunFacts};
use vmnoise_recording::{Writer, seal};

use crate::grammar::{self, Stream, Words};

/// First bytes of every recording.
const BEGIN: [u8; 4] = [0xff; 4];
/// Last bytes of a complete recording.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Returns a recording. If the bytes begin like a recording, seals this changed recording again.
/// Otherwise, makes a recording from the bytes as words.
pub(crate) fn recording(bytes: &[u8]) -> Vec<u8> {
    match bytes.starts_with(&BEGIN) {
        true => seal(bytes),
        false => {
            let mut words = Words::new(bytes);
            let facts = grammar::facts(&mut words);
            recorded(&mut words, &facts)
        }
    }
}

/// Returns the recordings of a guest and of its host. The bytes of the host follow the bytes of the
/// guest.
pub(crate) fn pair(bytes: &[u8]) -> [Vec<u8>; 2] {
    if bytes.starts_with(&BEGIN) {
        let end = bytes.windows(END.len()).position(|found| found == END);
        let (guest, host) = bytes.split_at(end.map_or(bytes.len(), |at| at + END.len()));
        return [seal(guest), seal(host)];
    }
    let mut words = Words::new(bytes);
    let [guest, host] = grammar::facts_of_pair(&mut words);
    // Each recording is made from half of the words.
    let (of_guest, of_host) = words.halves();
    let made = |mut words, facts| recorded(&mut words, facts);
    [made(of_guest, &guest), made(of_host, &host)]
}

/// Returns a recording of all events that the words give, in batches of any size.
fn recorded(words: &mut Words<'_>, facts: &RunFacts) -> Vec<u8> {
    let batch = usize::from(words.byte()) + 1;
    let events: Vec<Event> = Stream::new(words, facts).collect();
    let mut writer = Writer::unchecked(Vec::new(), facts).expect("memory takes every byte");
    for events in events.chunks(batch) {
        for event in events {
            writer.push(event).expect("memory takes every byte");
        }
        writer.flush().expect("memory takes every byte");
    }
    writer.finish().expect("memory takes every byte")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::collections::BTreeMap;
    use std::mem::discriminant;
    use std::path::Path;

    use vmnoise_events::MeasuringCommand;
    use vmnoise_explain::{Explainer, Summary};
    use vmnoise_recording::{RecordingEnd, RecordingReader};

    use super::*;
    use crate::Inputs;

    /// Returns the explainer's summary of the events; `None` if the recording is of a host.
    fn summary(facts: &RunFacts, events: &[Event]) -> Option<Summary> {
        let mut explainer = Explainer::new(facts);
        for event in events {
            explainer.push(event, &mut |_| {});
        }
        (facts.workload != MeasuringCommand::Exits).then(|| explainer.finish())
    }

    /// The search is useless if readers refuse the streams at once, or find nothing in them.
    #[test]
    fn what_is_made_gets_far() {
        let inputs = Inputs::of(1, Path::new("/nowhere"));
        let (mut whole, mut gaps, mut wakeups) = (0, 0, 0);
        let mut kinds = BTreeMap::new();
        for case in 0..400 {
            let bytes = recording(&inputs.input(case));
            let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
            let mut events = Vec::new();
            let end = reader.for_each(&mut |event| events.push(event.clone()));
            whole += u32::from(matches!(end, Ok(RecordingEnd::Complete)));
            for event in &events {
                *kinds
                    .entry(format!("{:?}", discriminant(event)))
                    .or_insert(0) += 1;
            }
            if let Some(summary) = summary(reader.facts(), &events) {
                gaps += summary.cpus.iter().map(|cpu| cpu.gaps).sum::<u64>();
                let tasks = summary.wakeups.iter().flat_map(|it| &it.cpus);
                wakeups += tasks.map(|cpu| cpu.count).sum::<u64>();
            }
        }
        let found = format!("{whole} whole, {gaps} gaps, {wakeups} wake-ups, {kinds:?}");
        // A quarter of the streams has no impossible number. Two of five workloads have gaps, and
        // one workload has wake-ups. These streams have at least one gap or wake-up on average.
        assert!(whole >= 100 && gaps >= 160 && wakeups >= 80, "{found}");
        // This is the number of kinds of `Event`.
        assert_eq!(kinds.len(), 17, "{found}");
    }
}
