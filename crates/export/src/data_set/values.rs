//! Values of a column in a row group. The Parquet library decodes them in batches.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use vmnoise_events::Name;

use super::pages::CheckedPages;

/// Reader of a column in one row group.
pub(super) struct Column(ColumnReader);

/// The next values of a column, one for each row. `None` stands for null.
pub(super) enum Values {
    Ints(Vec<Option<i64>>),
    Texts(Vec<Option<Arc<str>>>),
    Bools(Vec<Option<bool>>),
}

impl Column {
    /// Opens this column chunk of a file.
    pub(super) fn open(file: &Arc<File>, chunk: &ColumnChunkMetaData) -> Result<Column> {
        let pages = Box::new(CheckedPages::new(file, chunk)?);
        Ok(Column(get_column_reader(chunk.column_descr_ptr(), pages)))
    }

    /// Reads the next values, at most `most`. Returns no values after the last one.
    pub(super) fn read(&mut self, most: usize) -> Result<Values> {
        Ok(match &mut self.0 {
            ColumnReader::Int64ColumnReader(reader) => Values::Ints(read(reader, most)?),
            ColumnReader::ByteArrayColumnReader(reader) => {
                Values::Texts(shown(&read(reader, most)?)?)
            }
            ColumnReader::BoolColumnReader(reader) => Values::Bools(read(reader, most)?),
            _ => return Err(ParquetError::General("a column of another type".into())),
        })
    }
}

fn read<T: DataType>(reader: &mut ColumnReaderImpl<T>, most: usize) -> Result<Vec<Option<T::T>>> {
    let (mut known, mut levels) = (Vec::new(), Vec::new());
    let (rows, ..) = reader.read_records(most, Some(&mut levels), None, &mut known)?;
    if levels.is_empty() {
        // Without definition levels, no value of the column is null.
        levels.resize(rows, 1);
    }
    let mut known = known.into_iter();
    let values = levels.into_iter().map(|level| match level {
        0 => None,
        _ => known.next(),
    });
    Ok(values.collect())
}

/// Makes texts safe to print, because anyone may have written them, and vmnoise shows them on
/// terminals and pages. Rows with the same text share one copy.
fn shown(texts: &[Option<ByteArray>]) -> Result<Vec<Option<Arc<str>>>> {
    let mut shown: HashMap<&[u8], Arc<str>> = HashMap::new();
    let texts = texts.iter().map(|text| {
        let Some(bytes) = text.as_ref().map(ByteArray::data) else {
            return Ok(None);
        };
        if let Some(text) = shown.get(bytes) {
            return Ok(Some(Arc::clone(text)));
        }
        let text: Arc<str> = Name::new(str::from_utf8(bytes)?).as_str().into();
        shown.insert(bytes, Arc::clone(&text));
        Ok(Some(text))
    });
    texts.collect()
}

impl Values {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        match self {
            Values::Ints(ints) => ints.len(),
            Values::Texts(texts) => texts.len(),
            Values::Bools(bools) => bools.len(),
        }
    }
}
