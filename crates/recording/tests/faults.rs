//! Tests files that are cut, damaged, foreign or newer. The reader returns everything before the
//! fault and one clear line, and never panics.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::{facts, one_of_each, record, replay};
use arrow_array::{Int32Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use vmnoise_recording::{FORMAT_VERSION, ReadError, RecordingEnd};

const EVENTS_PER_BATCH: usize = 4;

/// Returns each number of bytes after which a part of the recording ends: the header, each batch,
/// and the end marker.
fn part_ends(bytes: &[u8]) -> Vec<usize> {
    let whole = |len: &usize| replay(&bytes[..*len]).1.is_ok();
    (1..=bytes.len()).filter(whole).collect()
}

#[test]
fn cut_anywhere_it_gives_every_complete_batch() {
    let events = one_of_each();
    let bytes = record(&events, EVENTS_PER_BATCH);
    let batches = events.len().div_ceil(EVENTS_PER_BATCH);
    let ends = part_ends(&bytes);
    assert_eq!(ends.len(), 1 + batches + 1, "header, batches, end marker");

    for len in 1..bytes.len() {
        let complete = ends
            .iter()
            .filter(|end| **end <= len)
            .count()
            .saturating_sub(1);
        let (read, end) = replay(&bytes[..len]);
        let expected = events.len().min(complete * EVENTS_PER_BATCH);
        assert_eq!(read, &events[..expected], "cut at {len}");
        match end {
            Ok(ending) => {
                let batches = complete as u64;
                assert_eq!(ending, RecordingEnd::CutOff { batches }, "cut at {len}");
            }
            Err(ReadError::Truncated { batches_read, at }) => {
                assert_eq!((batches_read, at), (complete as u64, len as u64));
            }
            Err(other) => panic!("cut at {len}: {other}"),
        }
    }
}

#[test]
fn a_changed_byte_is_found_or_changes_nothing() {
    let events = one_of_each();
    let bytes = record(&events, EVENTS_PER_BATCH);
    let mut found = 0;
    for at in 0..bytes.len() {
        for mask in [1 << (at % 8), 0xff, bytes[at]] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            let (read, end) = replay(&damaged);
            assert!(
                events.starts_with(&read),
                "byte {at} ^ {mask:#x}: made up events"
            );
            match end {
                Ok(ending) => {
                    assert_eq!(ending, RecordingEnd::Complete, "byte {at} ^ {mask:#x}");
                    assert_eq!(read, events, "byte {at} ^ {mask:#x}");
                }
                Err(error) => {
                    found += 1;
                    assert_eq!(error.to_string().lines().count(), 1, "{error}");
                }
            }
        }
    }
    assert!(found > bytes.len(), "only {found} changes were found");
}

#[test]
fn a_batch_dropped_doubled_or_swapped_is_found() {
    let bytes = record(&one_of_each(), EVENTS_PER_BATCH);
    let ends = part_ends(&bytes);
    let part = |index: usize| &bytes[ends[index - 1]..ends[index]];
    let header = &bytes[..ends[0]];
    for order in [
        vec![2, 3, 4, 5],
        vec![1, 1, 2, 3, 4, 5],
        vec![1, 3, 2, 4, 5],
    ] {
        let parts = order.iter().map(|index| part(*index));
        let shuffled: Vec<u8> = std::iter::once(header)
            .chain(parts)
            .flatten()
            .copied()
            .collect();
        let (read, end) = replay(&shuffled);
        assert!(
            matches!(end, Err(ReadError::Corrupt { .. })),
            "{order:?}: {end:?}"
        );
        assert!(one_of_each().starts_with(&read));
    }
}

#[test]
fn data_after_the_end_is_found() {
    let mut bytes = record(&one_of_each(), EVENTS_PER_BATCH);
    bytes.push(0);
    let (read, end) = replay(&bytes);
    assert_eq!(read, one_of_each());
    let error = end.unwrap_err().to_string();
    assert!(error.contains("follows the end marker"), "{error}");
}

#[test]
fn a_foreign_file_is_named() {
    let arrow = arrow_stream(HashMap::new());
    let cases: [(&[u8], &str); 9] = [
        (b"", "empty"),
        (b"hi", "text"),
        (b"cpu,noise_ns\n1,2\n", "text"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0", "program"),
        (b"PAR1\x15\x04\x15", "Parquet"),
        (b"ARROW1\0\0\xff\xff\xff\xff", "Arrow file"),
        (b"\xff\xff\xff\xff\x08\0\0\0garbage!", "metadata"),
        (b"\x1f\x8b\x08\0\0\0", "compressed"),
        (&arrow, "another program"),
    ];
    for (bytes, expected) in cases {
        let (read, end) = replay(bytes);
        let error = end.unwrap_err();
        assert!(matches!(error, ReadError::NotARecording { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert_eq!(read, []);
    }
}

#[test]
fn a_newer_format_asks_for_an_update() {
    let newer = FORMAT_VERSION + 1;
    let bytes = arrow_stream(HashMap::from([(
        "vmnoise.format_version".to_owned(),
        newer.to_string(),
    )]));
    let error = replay(&bytes).1.unwrap_err();
    assert!(matches!(error, ReadError::NewerFormat { found, .. } if found == newer));
    assert!(error.to_string().contains("update vmnoise"), "{error}");
}

#[test]
fn a_header_that_lies_is_damaged() {
    let facts = serde_json::to_string(&facts()).unwrap();
    let crc = crc32fast::hash(facts.as_bytes()).to_string();
    let cases = [
        (vec![("vmnoise.format_version", "one")], "format version"),
        (vec![("vmnoise.format_version", "1")], "lacks"),
        (
            vec![
                ("vmnoise.format_version", "1"),
                ("vmnoise.facts", &facts),
                ("vmnoise.facts_crc32", "7"),
            ],
            "checksum",
        ),
        (
            vec![
                ("vmnoise.format_version", "1"),
                ("vmnoise.facts", "{}"),
                ("vmnoise.facts_crc32", "2745614147"),
            ],
            "not understood",
        ),
        (
            vec![
                ("vmnoise.format_version", "1"),
                ("vmnoise.facts", &facts),
                ("vmnoise.facts_crc32", &crc),
            ],
            "columns are not those of format version 1",
        ),
        (
            vec![
                ("vmnoise.format_version", "2"),
                ("vmnoise.facts", &facts),
                ("vmnoise.facts_crc32", &crc),
            ],
            "columns are not those of format version 2",
        ),
        (
            vec![
                ("vmnoise.format_version", "3"),
                ("vmnoise.facts", &facts),
                ("vmnoise.facts_crc32", &crc),
            ],
            "columns are not those of format version 3",
        ),
        (
            vec![
                ("vmnoise.format_version", "4"),
                ("vmnoise.facts", &facts),
                ("vmnoise.facts_crc32", &crc),
            ],
            "columns are not those of format version 4",
        ),
        (
            vec![
                ("vmnoise.format_version", "5"),
                ("vmnoise.facts", &facts),
                ("vmnoise.facts_crc32", &crc),
            ],
            "columns are not those of format version 5",
        ),
        (vec![("vmnoise.format_version", "0")], "format version"),
    ];
    for (keys, expected) in cases {
        let metadata = keys
            .iter()
            .map(|(key, text)| (key.to_string(), text.to_string()));
        let error = replay(&arrow_stream(metadata.collect())).1.unwrap_err();
        assert!(
            matches!(error, ReadError::Corrupt { batch: 0, .. }),
            "{error}"
        );
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}

/// Returns an Arrow stream with a column that no recording has.
fn arrow_stream(metadata: HashMap<String, String>) -> Vec<u8> {
    let field = Field::new("a", DataType::Int32, false);
    let schema = Arc::new(Schema::new_with_metadata(vec![field], metadata));
    let column = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let batch =
        RecordBatch::try_new(Arc::clone(&schema), vec![column]).expect("a valid stream in memory");
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).expect("a valid stream in memory");
    writer.write(&batch).expect("a valid stream in memory");
    writer.into_inner().expect("a valid stream in memory")
}
