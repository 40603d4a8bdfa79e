//! Tests that everything that was written is read back: events, values, facts, ending.

use std::ops::ControlFlow;

use crate::any::any_stream;
use crate::common::{facts, one_of_each, record, replay};
use proptest::prelude::*;
use vmnoise_events::{
    Activity, ActivityKind, Event, Source, SourceId, VcpuClock, VcpuId, VcpuInterval,
    VcpuIntervalKind,
};
use vmnoise_recording::{RecordingEnd, RecordingReader, WriteError, Writer};

#[test]
fn every_kind_of_event_and_the_facts() {
    let bytes = record(&one_of_each(), 4);
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.facts(), &facts());
    let mut events = Vec::new();
    let ending = reader.for_each(&mut |event| events.push(event.clone()));
    assert_eq!(ending.unwrap(), RecordingEnd::Complete);
    assert_eq!(events, one_of_each());
}

#[test]
fn a_reader_shows_the_name_of_its_type() {
    let bytes = record(&one_of_each(), 4);
    let reader = RecordingReader::new(bytes.as_slice()).unwrap();
    let shown = format!("{reader:?}");
    assert!(shown.starts_with("RecordingReader {"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_stream_in_any_batches(events in any_stream(60), flush_every in 1_usize..20) {
        let (read, end) = replay(&record(&events, flush_every));
        prop_assert_eq!(end.unwrap(), RecordingEnd::Complete);
        prop_assert_eq!(read, events);
    }
}

#[test]
fn full_batches_write_themselves() {
    let events: Vec<Event> = (0..40_000).map(Event::Watermark).collect();
    let mut writer = Writer::new(Vec::new(), &facts()).unwrap();
    events.iter().for_each(|event| writer.push(event).unwrap());
    let bytes = writer.finish().unwrap();

    let (read, ending) = replay(&bytes);
    assert_eq!(ending.unwrap(), RecordingEnd::Complete);
    assert_eq!(read, events);

    // Without the end marker, the ending has the number of batches.
    let (read, ending) = replay(&bytes[..bytes.len() - 8]);
    assert_eq!(ending.unwrap(), RecordingEnd::CutOff { batches: 3 });
    assert_eq!(read.len(), 40_000);
}

#[test]
fn events_are_pulled_one_by_one_and_the_end_stays_the_end() {
    let bytes = record(&one_of_each(), 4);
    let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
    for event in one_of_each() {
        assert_eq!(reader.next_event().unwrap(), ControlFlow::Continue(event));
    }
    for _ in 0..2 {
        let end = reader.next_event().unwrap();
        assert_eq!(end, ControlFlow::Break(RecordingEnd::Complete));
    }
}

#[test]
fn a_killed_writer_leaves_everything_it_flushed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let events = one_of_each();
    let mut writer = Writer::create(file.path(), &facts()).unwrap();
    for event in &events[..6] {
        writer.push(event).unwrap();
        writer.flush().unwrap();
    }
    writer.push(&events[6]).unwrap();
    drop(writer);

    let mut read = Vec::new();
    let ending = RecordingReader::open(file.path())
        .unwrap()
        .for_each(&mut |event| read.push(event.clone()));
    assert_eq!(ending.unwrap(), RecordingEnd::CutOff { batches: 6 });
    assert_eq!(read, &events[..6]);
}

#[test]
fn a_run_without_events_is_a_recording() {
    let (events, end) = replay(&record(&[], 1));
    assert_eq!((events, end.unwrap()), (vec![], RecordingEnd::Complete));
}

#[test]
fn the_writer_refuses_what_no_reader_would_take() {
    let mut writer = Writer::new(Vec::new(), &facts()).unwrap();
    let unnamed = Event::Activity(Activity {
        cpu: 1,
        kind: ActivityKind::Irq,
        start_mono_ns: 0,
        end_mono_ns: 0,
        source: SourceId(0),
        steal_ns: 0,
    });
    let skipping = Event::Source(Source {
        id: SourceId(1),
        name: "late".into(),
    });
    let interval = VcpuInterval {
        vcpu: VcpuId(0),
        kind: VcpuIntervalKind::Blocked,
        start_mono_ns: 0,
        end_mono_ns: 0,
        cpu: 1,
        to_cpu: 1,
        source: Some(SourceId(0)),
    };
    let of_nobody = Event::VcpuInterval(interval);
    let nobodys_clock = Event::VcpuClock(VcpuClock {
        vcpu: VcpuId(0),
        before_until_mono_ns: 0,
        from_mono_ns: 0,
        offset_tsc: 0,
        ratio: 1,
        ratio_frac_bits: 0,
    });
    for event in [unnamed, skipping, of_nobody, nobodys_clock] {
        let error = writer.push(&event).unwrap_err();
        assert!(matches!(error, WriteError::Order { .. }), "{error}");
    }
    let (events, _) = replay(&writer.finish().unwrap());
    assert_eq!(events, []);
}

#[test]
fn a_path_that_cannot_be_written_fails_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let error = Writer::create(&folder.path().join("none/run.arrows"), &facts()).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("none/run.arrows"), "{message}");
    assert!(message.contains("name a file"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn a_row_of_a_full_batch_takes_at_most_88_bytes() {
    let mut writer = Writer::new(Vec::new(), &facts()).unwrap();
    writer
        .push(&Event::Source(Source {
            id: SourceId(0),
            name: "stress-ng:4711".into(),
        }))
        .unwrap();
    for start_mono_ns in 0..4 * 16_384 {
        writer
            .push(&Event::Activity(Activity {
                cpu: 1,
                kind: ActivityKind::Thread,
                start_mono_ns,
                end_mono_ns: start_mono_ns + 1,
                source: SourceId(0),
                steal_ns: start_mono_ns,
            }))
            .unwrap();
    }
    let bytes = writer.finish().unwrap().len();
    assert!(
        bytes < 88 * 4 * 16_384,
        "{} bytes a row",
        bytes / (4 * 16_384)
    );
}
