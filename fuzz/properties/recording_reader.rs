//! Property that must hold for any bytes that claim to be a recording.

use vmnoise_events::Event;
use vmnoise_recording::{ReadError, RecordingEnd, RecordingReader, Writer};

/// Reads these bytes without a panic. Checks that a writer accepts the events, and that a reader
/// returns them again. Returns the ending of the bytes.
pub fn check(bytes: &[u8]) -> Result<RecordingEnd, ReadError> {
    let mut reader = RecordingReader::new(bytes)?;
    let mut events = Vec::new();
    let end = reader.for_each(&mut |event| events.push(event.clone()));

    let mut writer = Writer::new(Vec::new(), reader.facts()).expect("memory takes every byte");
    for event in &events {
        writer
            .push(event)
            .expect("the reader hands out a valid stream");
    }
    let again = writer.finish().expect("memory takes every byte");
    let mut reader = RecordingReader::new(again.as_slice()).expect("a new recording");
    let mut events_again: Vec<Event> = Vec::new();
    reader
        .for_each(&mut |event| events_again.push(event.clone()))
        .expect("a new recording");
    assert_eq!(events, events_again);
    end
}
