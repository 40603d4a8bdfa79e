//! Tables that another program has rewritten, with other encodings and pages than vmnoise writes.

use std::fs::File;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;
use vmnoise_export::StoredRun;

use crate::read_back::{assert_no_damage_is_more_than_an_error, read, write};

const TABLES: [&str; 4] = ["run", "cpus", "gaps", "gap_parts"];

/// Writes each table of a run anew with these properties.
fn rewrite(run: &StoredRun, properties: &WriterProperties) {
    for table in TABLES {
        let path = run.folder.join(format!("{table}.parquet"));
        let batches = ParquetRecordBatchReader::try_new(File::open(&path).unwrap(), 100).unwrap();
        let batches: Vec<_> = batches.map(Result::unwrap).collect();
        let Some(first) = batches.first() else {
            continue;
        };
        let (file, schema) = (File::create(&path).unwrap(), first.schema());
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties.clone())).unwrap();
        batches.iter().for_each(|it| writer.write(it).unwrap());
        writer.close().unwrap();
    }
}

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
}

/// What engines write unless they are asked for something else (Snappy, dictionaries), plain values, pages of version 2
/// with numbers as differences, and many small pages in many small row groups.
fn variants() -> [WriterProperties; 4] {
    let version_2 = properties().set_writer_version(WriterVersion::PARQUET_2_0);
    let gap = || ColumnPath::from("gap");
    [
        properties().set_compression(Compression::SNAPPY).build(),
        properties().set_dictionary_enabled(false).build(),
        version_2
            .set_column_dictionary_enabled(gap(), false)
            .set_column_encoding(gap(), Encoding::DELTA_BINARY_PACKED)
            .build(),
        properties()
            .set_max_row_group_row_count(Some(5))
            .set_data_page_row_count_limit(2)
            .set_write_batch_size(1)
            .build(),
    ]
}

#[test]
fn what_another_program_rewrote_is_read() {
    for properties in variants() {
        let folder = tempfile::tempdir().unwrap();
        let run = write(folder.path());
        let expected = (run.facts().unwrap(), read(&run).unwrap());
        rewrite(&run, &properties);
        let found = (run.facts().unwrap(), read(&run).unwrap());
        assert_eq!(found, expected, "{properties:?}");
    }
}

/// The other variants are read by decoders that also read what vmnoise writes.
#[test]
fn no_damaged_byte_of_version_2_is_more_than_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = write(folder.path());
    let [_, _, version_2, _] = variants();
    rewrite(&run, &version_2);
    assert_no_damage_is_more_than_an_error(&run);
}

#[test]
fn an_encoding_that_is_not_read_is_named_with_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let run = write(folder.path());
    let text = || ColumnPath::from("share");
    let properties = properties()
        .set_column_dictionary_enabled(text(), false)
        .set_column_encoding(text(), Encoding::DELTA_BYTE_ARRAY);
    rewrite(&run, &properties.build());
    let error = read(&run).unwrap_err().to_string();
    assert!(
        error.contains("gap_parts.parquet: ")
            && error.contains("DELTA_BYTE_ARRAY is not read: write plain values or dictionaries"),
        "{error}"
    );
}
