//! Tests files with claims that no machine can meet, or that would need much more memory than their
//! size. The reader refuses these files before it allocates the memory.

use crate::common::{facts, one_of_each, record, replay};
use flatbuffers::FlatBufferBuilder;
use vmnoise_events::*;
use vmnoise_recording::{ReadError, RecordingEnd, Writer, seal};

/// Reads a recording with these facts and without events.
fn read(facts: &RunFacts) -> Result<RecordingEnd, ReadError> {
    let writer = Writer::unchecked(Vec::new(), facts).unwrap();
    replay(&writer.finish().unwrap()).1
}

fn with(change: impl FnOnce(&mut RunFacts)) -> RunFacts {
    let mut facts = facts();
    change(&mut facts);
    facts
}

#[test]
fn a_header_lists_what_a_machine_may_have() {
    let all: Vec<u32> = (0..8_192).collect();
    let largest = with(|facts| {
        facts.options.cpus = all.clone();
        facts.host.allowed_cpus = all.clone();
        facts.host.apic_ids = all.iter().map(|cpu| (*cpu, u32::MAX - cpu)).collect();
        let name = Name::new(&"\u{1f9ea}".repeat(128));
        let comm = name.clone();
        facts.options.observed = vec![ObservedThread { tid: 1, comm }; 8_192];
        facts.options.exits.as_mut().unwrap().reasons = vec![name; 4_096];
        let mut probe_status = facts.probe_statuses[0].clone();
        probe_status.limit = ShownLine::new(&"\u{1f9ea}".repeat(1_024));
        probe_status.remedy = probe_status.limit.clone();
        facts.probe_statuses = vec![probe_status; 1_024];
    });
    assert_eq!(read(&largest).unwrap(), RecordingEnd::Complete);

    let probe_status = facts().probe_statuses[0].clone();
    let refused: [(RunFacts, &str); 8] = [
        (
            with(|facts| facts.options.cpus = vec![1, 8_192]),
            "measured CPUs: no machine has CPU 8192",
        ),
        (
            with(|facts| facts.options.cpus = vec![1, 1]),
            "measured CPUs: CPU 1 is out of order, or there twice",
        ),
        (
            with(|facts| facts.host.allowed_cpus = vec![3, 2]),
            "allowed CPUs: CPU 2 is out of order",
        ),
        (
            with(|facts| facts.host.apic_ids = vec![(4, 0), (4, 2)]),
            "CPUs with an APIC id: CPU 4 is out of order",
        ),
        (
            with(|facts| {
                let one = facts.options.observed[0].clone();
                facts.options.observed = vec![one; 8_193];
            }),
            "8193 observed threads: 8192 is the most",
        ),
        (
            with(|facts| facts.probe_statuses = vec![probe_status; 1_025]),
            "1025 probes: 1024 is the most",
        ),
        (
            with(|facts| {
                let filter = facts.options.exits.as_mut().unwrap();
                filter.reasons = vec![Name::default(); 4_097];
            }),
            "4097 reasons: 4096 is the most",
        ),
        (
            with(|facts| {
                let filter = facts.options.exits.as_mut().unwrap();
                filter.vcpus = Some(vec![0; 8_193]);
            }),
            "8193 vCPUs asked for: 8192 is the most",
        ),
    ];
    for (facts, expected) in refused {
        let error = read(&facts).unwrap_err().to_string();
        assert!(error.contains("in its header"), "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// The author of a file can give any header a valid checksum.
#[test]
fn settings_that_no_machine_has_are_refused() {
    let whole = record(&one_of_each(), 5);
    for (was, is) in [
        ("proc/cmdline", "../c/cmdline"),
        ("proc/cmdline", "/roc/cmdline"),
        ("proc/cmdline", "p//c/cmdline"),
        ("quiet isolcpus=3", "quiet \\u001bps=3"),
        ("quiet isolcpus=3", "quiet \\u0000ps=3"),
        ("\"quiet isolcpus=3\"", "[\"quiet isolcpus\"]"),
    ] {
        let place = whole.windows(was.len()).position(|it| it == was.as_bytes());
        let place = place.expect("the header has it");
        let mut changed = whole.clone();
        changed[place..place + was.len()].copy_from_slice(is.as_bytes());
        let (events, end) = replay(&seal(&changed));
        let error = end.unwrap_err().to_string();
        assert!(
            error.contains("in its header: the facts are not understood"),
            "{is}: {error}"
        );
        assert_eq!((events.len(), error.lines().count()), (0, 1));
    }
    // Too many settings are refused while they are read.
    let mut settings = Settings::default();
    for number in 0..Settings::MOST {
        settings.insert(&number.to_string(), None).unwrap();
    }
    assert!(settings.insert("one more", None).is_err());
    assert_eq!(
        read(&with(|facts| facts.host.settings = Some(settings))).unwrap(),
        RecordingEnd::Complete
    );
}

/// Observed threads and vCPUs may run on a CPU that came online after the header was written.
#[test]
fn what_moves_may_be_reported_of_any_cpu_that_a_machine_may_have() {
    let tally = |cpu| {
        Event::Tally(CpuTally {
            cpu,
            ..CpuTally::default()
        })
    };
    for (workload, cpu, is_read) in [
        (MeasuringCommand::Observed, 8_191, true),
        (MeasuringCommand::Exits, 8_191, true),
        (MeasuringCommand::Observed, 8_192, false),
        (MeasuringCommand::Osnoise, 8_191, false),
        (MeasuringCommand::Timerlat, 5, false),
        (MeasuringCommand::Osnoise, 3, true),
    ] {
        let facts = with(|facts| facts.workload = workload);
        let mut writer = Writer::unchecked(Vec::new(), &facts).unwrap();
        writer.push(&tally(1)).unwrap();
        writer.push(&tally(cpu)).unwrap();
        let (events, end) = replay(&writer.finish().unwrap());
        assert_eq!(end.is_ok(), is_read, "{workload:?} {cpu}: {end:?}");
        assert_eq!(events.len(), 1 + usize::from(is_read));
        if let Err(error) = end {
            let expected = format!("in batch 1: it has an event of CPU {cpu}, which");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}

/// Returns a schema with `pairs` pairs of metadata, which all share the bytes of one value.
fn shared_bytes(pairs: usize, value: &str) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let value = builder.create_string(value);
    let pairs: Vec<_> = (0..pairs)
        .map(|nth| {
            let key = Some(builder.create_string(&nth.to_string()));
            let value = Some(value);
            arrow_ipc::KeyValue::create(&mut builder, &arrow_ipc::KeyValueArgs { key, value })
        })
        .collect();
    let pairs = builder.create_vector(&pairs);
    let schema = arrow_ipc::SchemaArgs {
        custom_metadata: Some(pairs),
        ..arrow_ipc::SchemaArgs::default()
    };
    let schema = arrow_ipc::Schema::create(&mut builder, &schema);
    let message = arrow_ipc::MessageArgs {
        version: arrow_ipc::MetadataVersion::V5,
        header_type: arrow_ipc::MessageHeader::Schema,
        header: Some(schema.as_union_value()),
        ..arrow_ipc::MessageArgs::default()
    };
    let message = arrow_ipc::Message::create(&mut builder, &message);
    builder.finish(message, None);
    let metadata = builder.finished_data();
    let length = (metadata.len() as u32).to_le_bytes();
    [&[0xff; 4], &length[..], metadata].concat()
}

#[test]
fn bytes_that_many_parts_share_are_not_copied_for_each() {
    // 0.9 MB that would expand to 900 MB.
    let error = replay(&shared_bytes(2_000, &"x".repeat(450_000)))
        .1
        .unwrap_err();
    assert!(
        error.to_string().contains("metadata is not valid"),
        "{error}"
    );
    let few = replay(&shared_bytes(2, "x")).1.unwrap_err();
    assert!(few.to_string().contains("no fields"), "{few}");
}

/// Returns the header of a recording, and the message of its only batch.
fn split() -> (Vec<u8>, Vec<u8>) {
    let bytes = record(&one_of_each(), usize::MAX);
    let header = record(&[], 1).len() - 8;
    (bytes[..header].to_vec(), bytes[header..].to_vec())
}

#[test]
fn a_length_that_no_message_has_is_refused_at_once() {
    let (header, batch) = split();
    let mut long = header.clone();
    long.extend_from_slice(&batch[..4]);
    long.extend_from_slice(&i32::MAX.to_le_bytes());
    let error = replay(&long).1.unwrap_err().to_string();
    assert!(error.contains("2147483647 bytes of metadata"), "{error}");
}

#[test]
fn buffers_that_share_their_bytes_are_refused() {
    let (header, batch) = split();
    let length = u32::from_le_bytes(batch[4..8].try_into().unwrap()) as usize;
    let message = arrow_ipc::root_as_message(&batch[8..8 + length]).unwrap();
    let buffers = message.header_as_record_batch().unwrap().buffers().unwrap();
    // The file contains the start and length of each buffer in the same form as memory.
    let raw = buffers.bytes();
    let at = 8 + raw.as_ptr() as usize - batch[8..].as_ptr() as usize;
    // The values of `start_tsc` and `end_tsc`, which follow their validity, have equal lengths.
    let (one, other) = (at + 16 * 11, at + 16 * 13);
    let mut shared = batch.clone();
    assert_ne!(batch[one..one + 8], batch[other..other + 8]);
    assert_eq!(batch[one + 8..one + 16], batch[other + 8..other + 16]);
    shared.copy_within(one..one + 8, other);
    let whole = |batch: &[u8]| replay(&[&header, batch].concat()).1;
    whole(&batch).unwrap();
    let error = whole(&shared).unwrap_err().to_string();
    assert!(error.contains("metadata does not fit its data"), "{error}");
}

/// Another program may compress the content of a recording. A few bytes could then expand to any
/// number of bytes.
#[test]
fn what_is_compressed_is_refused() {
    let (header, _) = split();
    let mut builder = FlatBufferBuilder::new();
    let compression = arrow_ipc::BodyCompression::create(&mut builder, &Default::default());
    let batch = arrow_ipc::RecordBatchArgs {
        length: i64::MAX,
        compression: Some(compression),
        ..arrow_ipc::RecordBatchArgs::default()
    };
    let batch = arrow_ipc::RecordBatch::create(&mut builder, &batch);
    let message = arrow_ipc::MessageArgs {
        version: arrow_ipc::MetadataVersion::V5,
        header_type: arrow_ipc::MessageHeader::RecordBatch,
        header: Some(batch.as_union_value()),
        ..arrow_ipc::MessageArgs::default()
    };
    let message = arrow_ipc::Message::create(&mut builder, &message);
    builder.finish(message, None);
    let metadata = builder.finished_data();
    let length = (metadata.len() as u32).to_le_bytes();
    let bytes = [&header, &[0xff; 4][..], &length, metadata].concat();
    let error = replay(&bytes).1.unwrap_err().to_string();
    assert!(
        error.contains("encoding that vmnoise does not write"),
        "{error}"
    );
}
