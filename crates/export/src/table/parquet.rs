//! Writes rows as row groups of a Parquet file.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::cells::{Cells, Known, Values};
use super::{ColumnKind, DATA_VERSION, Schema, TableColumn};

/// Key of [`DATA_VERSION`] in the file's metadata.
const VERSION_KEY: &str = "vmnoise.data_version";

pub(super) fn create<W: Write + Send>(out: W, schema: &Schema) -> Result<SerializedFileWriter<W>> {
    let version = KeyValue::new(VERSION_KEY.to_owned(), DATA_VERSION.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("vmnoise ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![version]))
        .build();
    SerializedFileWriter::new(out, message(schema)?, Arc::new(properties))
}

/// Returns the bytes of a complete file with these rows.
pub(crate) fn encoded(schema: &Schema, rows: &Cells) -> Result<Vec<u8>> {
    let mut writer = create(Vec::new(), schema)?;
    write_rows(&mut writer, rows)?;
    writer.into_inner()
}

pub(super) fn write_rows<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    cells: &Cells,
) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for values in &cells.columns {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("a column too many".to_owned()));
        };
        write_column(column.untyped(), values)?;
        column.close()?;
    }
    group.close()?;
    Ok(())
}

fn write_column(writer: &mut ColumnWriter<'_>, values: &Values) -> Result<()> {
    let levels = Some(&values.levels[..]);
    match (writer, &values.known) {
        (ColumnWriter::Int64ColumnWriter(writer), Known::Ints(known)) => {
            writer.write_batch(known, levels, None)?;
        }
        (ColumnWriter::BoolColumnWriter(writer), Known::Bools(known)) => {
            writer.write_batch(known, levels, None)?;
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), Known::Texts(known)) => {
            let texts = known.iter().map(|text| ByteArray::from(&**text));
            let texts: Vec<ByteArray> = texts.collect();
            writer.write_batch(&texts, levels, None)?;
        }
        _ => return Err(ParquetError::General("a column of another type".to_owned())),
    }
    Ok(())
}

fn message(schema: &Schema) -> Result<TypePtr> {
    let fields = schema.columns.iter().map(field);
    let message = Type::group_type_builder(schema.name)
        .with_fields(fields.collect::<Result<Vec<_>>>()?)
        .build()?;
    Ok(Arc::new(message))
}

/// Returns the definition of a column. Times have no zone, because programs convert times with a
/// zone to the zone of their user.
fn field(column: &TableColumn) -> Result<TypePtr> {
    let (physical, logical) = match column.kind {
        ColumnKind::Int => (PhysicalType::INT64, None),
        ColumnKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Bool => (PhysicalType::BOOLEAN, None),
        ColumnKind::Time => (
            PhysicalType::INT64,
            Some(LogicalType::timestamp(false, TimeUnit::MICROS)),
        ),
    };
    let field = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}
