//! Tests batches with a valid checksum and rows that vmnoise's writer would never write.

use std::sync::Arc;

use crate::common::{facts, one_of_each, record, replay};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, MapArray, RecordBatch, StringArray, StructArray, UInt8Array, UInt32Array,
    UInt64Array, new_null_array,
};
use arrow_data::ArrayData;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use proptest::prelude::*;
use vmnoise_recording::ReadError;

/// Returns a batch with one event of each kind: source, anchor, gap, activity, ….
fn batch() -> RecordBatch {
    let bytes = record(&one_of_each(), usize::MAX);
    let mut batches = StreamReader::try_new(bytes.as_slice(), None).expect("an Arrow stream");
    batches.next().expect("one batch").expect("a valid batch")
}

fn with_column(batch: &RecordBatch, name: &str, column: ArrayRef) -> RecordBatch {
    let mut columns = batch.columns().to_vec();
    columns[batch.schema().index_of(name).expect("a column")] = column;
    RecordBatch::try_new(batch.schema(), columns).expect("the type stays")
}

fn map_entries(batch: &RecordBatch, keys: StringArray, values: UInt64Array) -> RecordBatch {
    let counters = batch.column_by_name("counters").expect("a column");
    let (field, offsets, entries, nulls, ordered) = counters.as_map().clone().into_parts();
    let (fields, _, _) = entries.into_parts();
    let entries = StructArray::new(fields, vec![Arc::new(keys), Arc::new(values)], None);
    let counters = MapArray::new(field, offsets, entries, nulls, ordered);
    with_column(batch, "counters", Arc::new(counters))
}

/// Puts the valid checksum into the last counter, as the format's page defines it.
fn seal(batch: &RecordBatch) -> RecordBatch {
    fn collect(data: &ArrayData, bytes: &mut Vec<u8>) {
        if let Some(nulls) = data.nulls() {
            bytes.extend_from_slice(nulls.validity());
        }
        for buffer in data.buffers() {
            bytes.extend_from_slice(buffer);
        }
        for child in data.child_data() {
            collect(child, bytes);
        }
    }
    let mut bytes = Vec::new();
    for column in batch.columns() {
        collect(&column.to_data(), &mut bytes);
    }
    bytes.truncate(bytes.len() - 8);
    let facts = serde_json::to_string(&facts()).expect("facts are JSON");
    let mut hasher = crc32fast::Hasher::new_with_initial(crc32fast::hash(facts.as_bytes()));
    hasher.update(&bytes);

    let counters = batch.column_by_name("counters").expect("a column").as_map();
    let mut values = counters
        .values()
        .as_primitive::<UInt64Type>()
        .values()
        .to_vec();
    *values.last_mut().expect("the checksum") = hasher.finalize().into();
    map_entries(batch, counters.keys().as_string().clone(), values.into())
}

fn stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("in memory");
    writer.write(batch).expect("in memory");
    writer.into_inner().expect("in memory")
}

fn u8s(batch: &RecordBatch, name: &str, change: impl Fn(u8) -> u8) -> ArrayRef {
    let column = batch.column_by_name(name).expect("a column");
    let changed: UInt8Array = column.as_primitive::<UInt8Type>().unary(change);
    Arc::new(changed)
}

fn u32s(batch: &RecordBatch, name: &str, change: impl Fn(usize, u32) -> u32) -> ArrayRef {
    let column = batch.column_by_name(name).expect("a column");
    let column = column.as_primitive::<UInt32Type>().iter().enumerate();
    let changed: UInt32Array = column
        .map(|(row, old)| old.map(|old| change(row, old)))
        .collect();
    Arc::new(changed)
}

#[test]
fn a_sealed_batch_of_ours_is_read() {
    let (events, end) = replay(&stream(&seal(&batch())));
    end.unwrap();
    assert_eq!(events, one_of_each());
}

#[test]
fn what_no_writer_writes_is_named() {
    let good = batch();
    let null = |name| {
        let data_type = good.column_by_name(name).unwrap().data_type().clone();
        with_column(&good, name, new_null_array(&data_type, good.num_rows()))
    };
    let counters = good.column_by_name("counters").unwrap().as_map();
    let keys: &StringArray = counters.keys().as_string();
    let values: UInt64Array = counters.values().as_primitive().clone();
    let renamed = keys
        .iter()
        .map(|key| key.map(|key| key.replace("lost", "found")));
    let edges = keys
        .iter()
        .map(|key| key.map(|key| key.replace("up_to_400", "up_to_many")));
    let reloads = keys
        .iter()
        .map(|key| key.map(|key| key.replace("reloads", "coffees")));
    let partly = keys
        .iter()
        .map(|key| key.map(|key| key.replace("interference_irq", "reloads")));
    let shares = keys
        .iter()
        .map(|key| key.map(|key| key.replace("preempted", "pre-empted")));
    let wide = keys.iter().zip(values.values()).map(|pair| match pair {
        (Some("ratio_frac_bits"), _) => 256,
        (_, value) => *value,
    });
    let column = |name, column| with_column(&good, name, column);
    let cases = [
        (
            column(
                "event",
                u8s(&good, "event", |old| if old == 1 { 22 } else { old }),
            ),
            "event 22",
        ),
        (
            column("kind", u8s(&good, "kind", |_| 9)),
            "activity of kind 9",
        ),
        (
            column("source", u32s(&good, "source", |_, old| old + 1)),
            "source 1 is out of order",
        ),
        (
            column(
                "source",
                u32s(&good, "source", |row, _| 7 * u32::from(row > 0)),
            ),
            "source 7 is out of order",
        ),
        (
            column("event", u8s(&good, "event", |old| old.max(13))),
            "row 0 is part of totals that do not precede it",
        ),
        (
            column("event", u8s(&good, "event", |old| old.max(17))),
            "row 0 is part of a host's frame that does not precede it",
        ),
        (
            map_entries(&good, shares.collect(), values.clone()),
            "names \"pre-empted\", which is no share",
        ),
        (
            column(
                "vcpu",
                u32s(&good, "vcpu", |row, old| old + u32::from(row > 16)),
            ),
            "row 17 belongs to the totals of another vCPU",
        ),
        (
            column("vcpu", u32s(&good, "vcpu", |row, _| u32::from(row > 9))),
            "row 10 belongs to the VM of another vCPU",
        ),
        (
            column("vcpu", u32s(&good, "vcpu", |row, _| u32::from(row > 11))),
            "vCPU 1 is out of order",
        ),
        (null("cpu"), "lacks `cpu`"),
        (
            column("cpu", u32s(&good, "cpu", |_, old| old + 6)),
            "CPU 7, which the header does not list",
        ),
        (
            column("to_cpu", u32s(&good, "to_cpu", |_, old| old << 20)),
            "CPU 3145728, which the header does not list",
        ),
        (null("name"), "lacks `name`"),
        (null("end_mono_ns"), "lacks `end_mono_ns`"),
        (
            map_entries(&good, renamed.collect(), values.clone()),
            "lacks counter `lost`",
        ),
        (
            map_entries(&good, reloads.collect(), values.clone()),
            "counter \"coffees\"",
        ),
        (
            map_entries(&good, edges.collect(), values.clone()),
            "a length that is no number",
        ),
        (
            map_entries(&good, partly.collect(), values.clone()),
            "lacks counter `interference_irq`",
        ),
        (
            map_entries(&good, keys.clone(), wide.collect::<Vec<u64>>().into()),
            "row 12 holds a scale of 256 bits",
        ),
        (
            column("event", u8s(&good, "event", |old| old.min(15))),
            "does not end with its checksum",
        ),
    ];
    for (batch, expected) in cases {
        let error = replay(&stream(&seal(&batch))).1.unwrap_err();
        assert!(
            matches!(error, ReadError::Corrupt { batch: 1, .. }),
            "{error}"
        );
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}

#[test]
fn rows_changed_without_their_checksum_are_damaged() {
    let good = seal(&batch());
    let changed = with_column(&good, "cpu", u32s(&good, "cpu", |_, old| old ^ 1));
    let (events, end) = replay(&stream(&changed));
    assert_eq!(events, []);
    assert!(end.unwrap_err().to_string().contains("checksum"));
}

proptest! {
    #[test]
    fn any_event_and_kind_over_any_nulls(
        events in proptest::collection::vec(0_u8..23, 25),
        kinds in proptest::collection::vec(proptest::option::of(0_u8..10), 26),
        cpus in proptest::collection::vec(proptest::option::of(any::<u32>()), 26),
        sources in proptest::collection::vec(proptest::option::of(0_u32..3), 26),
        nulls in proptest::sample::subsequence(
            vec!["start_tsc", "end_tsc", "start_mono_ns", "steal_ns", "reloads", "interference", "name", "vcpu", "to_cpu"],
            0..=3),
    ) {
        let mut batch = batch();
        let events: UInt8Array = events.into_iter().chain([255]).collect();
        batch = with_column(&batch, "event", Arc::new(events));
        batch = with_column(&batch, "kind", Arc::new(UInt8Array::from(kinds)));
        batch = with_column(&batch, "cpu", Arc::new(UInt32Array::from(cpus)));
        batch = with_column(&batch, "source", Arc::new(UInt32Array::from(sources)));
        for name in nulls {
            let data_type = batch.column_by_name(name).expect("a column").data_type().clone();
            batch = with_column(&batch, name, new_null_array(&data_type, batch.num_rows()));
        }
        if let Err(error) = replay(&stream(&seal(&batch))).1 {
            prop_assert!(matches!(error, ReadError::Corrupt { batch: 1, .. }), "{}", error);
            prop_assert!(!error.to_string().contains("its checksum"), "{}", error);
        }
    }
}
