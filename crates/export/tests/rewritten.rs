//! Reads tables that another program has rewritten with other encodings and pages than vmnoise
//! uses.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::DataType;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use vmnoise_export::{StoredFacts, StoredRun, schemas};

use crate::read_back::{GAPS, assert_no_damage_is_more_than_an_error, read, write};

const TABLES: [&str; 4] = ["run", "cpus", "gaps", "gap_parts"];

/// Rewrites each table of a run with these Parquet properties.
fn rewrite(run: &StoredRun, properties: &WriterProperties) {
    for table in TABLES {
        rewrite_columns(run, table, properties, usize::MAX);
    }
}

/// Rewrites the first columns of a table, at most this number.
fn rewrite_columns(run: &StoredRun, table: &str, properties: &WriterProperties, columns: usize) {
    let path = run.folder.join(format!("{table}.parquet"));
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    let schema = first_columns(metadata.schema_descr().root_schema(), columns);
    std::fs::remove_file(&path).unwrap();
    let (file, properties) = (File::create(&path).unwrap(), Arc::new(properties.clone()));
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    for group in 0..reader.num_row_groups() {
        let mut copy = writer.next_row_group().unwrap();
        copy_group(&*reader.get_row_group(group).unwrap(), &mut copy);
        copy.close().unwrap();
    }
    writer.close().unwrap();
}

/// Returns a schema of only the first columns, at most this number.
fn first_columns(schema: &Type, columns: usize) -> TypePtr {
    let fields = schema.get_fields().iter().take(columns).cloned();
    let first = Type::group_type_builder(schema.name()).with_fields(fields.collect());
    Arc::new(first.build().unwrap())
}

/// Copies as many columns of a row group as the copy has.
fn copy_group(group: &dyn RowGroupReader, copy: &mut SerializedRowGroupWriter<'_, File>) {
    for column in 0..group.num_columns() {
        let Some(mut writer) = copy.next_column().unwrap() else {
            return;
        };
        match group.get_column_reader(column).unwrap() {
            ColumnReader::Int64ColumnReader(reader) => copy_column(reader, writer.typed()),
            ColumnReader::BoolColumnReader(reader) => copy_column(reader, writer.typed()),
            ColumnReader::ByteArrayColumnReader(reader) => copy_column(reader, writer.typed()),
            _ => panic!("a column of a type that vmnoise does not write"),
        }
        writer.close().unwrap();
    }
}

fn copy_column<T: DataType>(mut reader: ColumnReaderImpl<T>, writer: &mut ColumnWriterImpl<'_, T>) {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let most = 10 * GAPS as usize;
    let read = reader.read_records(most, Some(&mut levels), None, &mut values);
    assert!(read.unwrap().0 < most);
    writer.write_batch(&values, Some(&levels), None).unwrap();
}

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
}

/// Returns four sets of Parquet properties: the usual default (Snappy, dictionaries), plain values,
/// version 2 with delta-encoded numbers, and many small pages.
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

/// Old versions wrote the table `run` without the columns from `ended` on.
#[test]
fn a_run_that_an_old_version_wrote_is_read_and_lacks_what_is_newer() {
    let folder = tempfile::tempdir().unwrap();
    let run = write(folder.path());
    let expected = StoredFacts {
        coverage: None,
        ..run.facts().unwrap()
    };
    let schemas = schemas();
    let schema = schemas.iter().find(|it| it.name == "run").unwrap();
    let old = schema.columns.iter().position(|it| it.name == "ended");
    rewrite_columns(&run, "run", &properties().build(), old.unwrap());
    assert_eq!(run.facts().unwrap(), expected);
}

/// Damages the tables of the variant with version 2. The decoders of the other variants also read
/// vmnoise's own files, which another test damages.
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
