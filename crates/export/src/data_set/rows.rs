//! The rows of a Parquet file, a batch at a time: of columns that are asked for, whatever size its row groups have.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Fields, TimeUnit};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::{FieldLevels, ProjectionMask};
use parquet::arrow::{parquet_to_arrow_field_levels, parquet_to_arrow_schema};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use vmnoise_events::Name;

use super::error::{DataSetError, io_error, parquet_error};
use super::pages::Group;
use crate::table::Kind;

/// Rows of a batch.
const ROWS_AT_ONCE: usize = 8_192;

/// Columns that are wanted of a table: the name of each, and what it holds.
pub(super) type Wanted = &'static [(&'static str, Kind)];

/// A table of a run, being read.
pub(super) struct Table {
    path: Arc<Path>,
    file: Arc<File>,
    metadata: ParquetMetaData,
    wanted: Wanted,
    /// The wanted columns, as the library reads them.
    levels: FieldLevels,
    /// Number of the next row group, and the rows of the one before.
    group: usize,
    batches: Option<ParquetRecordBatchReader>,
    /// Number of rows that were read.
    rows: u64,
}

/// Some rows of it.
pub(super) struct Batch {
    path: Arc<Path>,
    wanted: Wanted,
    columns: Vec<Values>,
    /// The number of its first row in the table.
    first: u64,
    rows: usize,
}

/// The values of a column in a batch; one that is not known is null.
enum Values {
    Ints(Int64Array),
    Texts(Texts),
    Bools(BooleanArray),
}

/// Texts, each made fit to be shown once, however many rows share it.
struct Texts {
    /// For each row the place of its text.
    places: Int32Array,
    texts: Vec<Option<Name>>,
}

impl Table {
    /// Opens the table `name` of the run in this folder, to read these columns.
    pub(super) fn open(folder: &Path, name: &str, wanted: Wanted) -> Result<Table, DataSetError> {
        let path = folder.join(format!("{name}.parquet"));
        let file = File::open(&path).map_err(io_error(&path))?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file);
        let metadata = metadata.map_err(parquet_error(&path))?;
        let schema = metadata.file_metadata().schema_descr();
        let fields = parquet_to_arrow_schema(schema, None).map_err(parquet_error(&path))?;
        let lacking = wanted.iter().find(|(name, kind)| {
            let field = fields.field_with_name(name);
            !field.is_ok_and(|field| holds(field.data_type(), *kind))
        });
        if let Some((name, kind)) = lacking {
            let what = format!("it has no column `{name}` ({})", kind.name());
            return Err(DataSetError::Table { path, what });
        }
        let mask = ProjectionMask::columns(schema, wanted.iter().map(|(name, _)| *name));
        let fields: Fields = fields.fields().iter().map(|it| by_dictionary(it)).collect();
        let levels = parquet_to_arrow_field_levels(schema, mask, Some(&fields));
        Ok(Table {
            levels: levels.map_err(parquet_error(&path))?,
            path: path.into(),
            file: Arc::new(file),
            metadata,
            wanted,
            group: 0,
            batches: None,
            rows: 0,
        })
    }

    /// The next rows; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Batch>, DataSetError> {
        loop {
            match self.batches.as_mut().and_then(Iterator::next) {
                Some(Ok(batch)) => return self.batch(&batch).map(Some),
                Some(Err(error)) => return Err(parquet_error(&self.path)(plain(error))),
                None if self.group == self.metadata.num_row_groups() => return Ok(None),
                None => {
                    let opened = self.open_group(self.group);
                    self.batches = Some(opened.map_err(parquet_error(&self.path))?);
                    self.group += 1;
                }
            }
        }
    }

    /// Returns an error that says what is wrong with it.
    pub(super) fn fault(&self, what: &str) -> DataSetError {
        DataSetError::Table {
            path: self.path.to_path_buf(),
            what: what.to_owned(),
        }
    }

    fn open_group(&self, index: usize) -> Result<ParquetRecordBatchReader, ParquetError> {
        let group = Group {
            file: &self.file,
            metadata: &self.metadata,
            index,
        };
        ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &group, ROWS_AT_ONCE, None)
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<Batch, DataSetError> {
        let columns = self.wanted.iter().map(|(name, kind)| {
            let array = batch.column_by_name(name);
            let values = array.and_then(|array| Values::of(array, *kind));
            values.ok_or_else(|| self.fault(&format!("`{name}` is no {}", kind.name())))
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let (first, rows) = (self.rows, batch.num_rows());
        self.rows += rows as u64;
        Ok(Batch {
            path: Arc::clone(&self.path),
            wanted: self.wanted,
            columns,
            first,
            rows,
        })
    }
}

/// Whether a column of this type holds that.
fn holds(data_type: &DataType, kind: Kind) -> bool {
    match kind {
        Kind::Int => *data_type == DataType::Int64,
        Kind::Text => *data_type == DataType::Utf8,
        Kind::Bool => *data_type == DataType::Boolean,
        Kind::Time => matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, _)),
    }
}

/// The field, with texts by a dictionary, as files have them: in memory a text that many rows share is there once.
fn by_dictionary(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// The error without the words of Arrow around it.
fn plain(error: ArrowError) -> ParquetError {
    match error {
        ArrowError::ParquetError(message) => ParquetError::General(message),
        other => other.into(),
    }
}

impl Values {
    /// The values of this array, if it holds that.
    fn of(array: &dyn Array, kind: Kind) -> Option<Values> {
        Some(match kind {
            Kind::Int => Values::Ints(array.as_primitive_opt::<Int64Type>()?.clone()),
            Kind::Time => {
                let times = array.as_primitive_opt::<TimestampMicrosecondType>()?;
                Values::Ints(times.reinterpret_cast())
            }
            Kind::Text => Values::Texts(Texts::of(array.as_dictionary_opt()?)?),
            Kind::Bool => Values::Bools(array.as_boolean_opt()?.clone()),
        })
    }
}

impl Texts {
    fn of(array: &DictionaryArray<Int32Type>) -> Option<Texts> {
        let foreign = array.values().as_string_opt::<i32>()?;
        let mut texts = vec![None; foreign.len()];
        for place in array.keys_iter().flatten() {
            // Another program may have written the table, and its names reach terminals and pages.
            texts[place].get_or_insert_with(|| Name::new(foreign.value(place)));
        }
        Some(Texts {
            places: array.keys().clone(),
            texts,
        })
    }

    fn text(&self, row: usize) -> Option<&str> {
        let is_known = self.places.is_valid(row);
        is_known.then(|| self.texts[self.places.value(row) as usize].as_deref())?
    }
}

impl Batch {
    /// How many rows it has.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// A number that is a count, a length or a time, if it is known.
    pub(super) fn maybe(&self, column: usize, row: usize) -> Result<Option<u64>, DataSetError> {
        let value = self.int(column, row);
        value
            .map(|value| {
                let counted = u64::try_from(value);
                counted.map_err(|_| self.fault(column, row, &format!("is {value}")))
            })
            .transpose()
    }

    /// A number that has to be known.
    pub(super) fn count(&self, column: usize, row: usize) -> Result<u64, DataSetError> {
        let value = self.maybe(column, row)?;
        value.ok_or_else(|| self.fault(column, row, "is not known"))
    }

    /// The number of a CPU.
    pub(super) fn cpu(&self, column: usize, row: usize) -> Result<u32, DataSetError> {
        let number = self.count(column, row)?;
        let cpu = u32::try_from(number);
        cpu.map_err(|_| self.fault(column, row, &format!("is {number}")))
    }

    fn int(&self, column: usize, row: usize) -> Option<i64> {
        match &self.columns[column] {
            Values::Ints(ints) => ints.is_valid(row).then(|| ints.value(row)),
            _ => None,
        }
    }

    /// A text, if it is known.
    pub(super) fn text(&self, column: usize, row: usize) -> Option<&str> {
        match &self.columns[column] {
            Values::Texts(texts) => texts.text(row),
            _ => None,
        }
    }

    /// Whether something is so, if it is known.
    pub(super) fn truth(&self, column: usize, row: usize) -> Option<bool> {
        match &self.columns[column] {
            Values::Bools(bools) => bools.is_valid(row).then(|| bools.value(row)),
            _ => None,
        }
    }

    /// Says what is wrong with a value.
    pub(super) fn fault(&self, column: usize, row: usize, what: &str) -> DataSetError {
        let (name, _) = self.wanted[column];
        DataSetError::Table {
            path: self.path.to_path_buf(),
            what: format!("`{name}` of row {} {what}", self.first + row as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::table::{Cell, Cells, Schema, encoded};

    const WANTED: Wanted = &[("n", Kind::Int), ("who", Kind::Text), ("is", Kind::Bool)];

    type Row = (Option<i64>, Option<String>, Option<bool>);

    fn read(folder: &Path) -> Result<Vec<Row>, DataSetError> {
        let mut table = Table::open(folder, "made", WANTED)?;
        let mut rows = Vec::new();
        while let Some(batch) = table.next()? {
            assert_eq!(batch.first, rows.len() as u64);
            for row in 0..batch.rows() {
                let text = batch.text(1, row).map(str::to_owned);
                rows.push((batch.int(0, row), text, batch.truth(2, row)));
            }
        }
        Ok(rows)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        /// By dictionaries of a few values or of many, and plain where these grow too large; over several pages
        /// and batches, and with values that are not known.
        #[test]
        fn what_the_library_writes_is_read(
            rows in 0_usize..60_000,
            distinct in 1_i64..200_000,
            known_in_8 in 0_i64..9,
            factor in any::<i64>(),
        ) {
            let made = |row: usize| -> Row {
                let number = (row as i64).wrapping_mul(7_919) % distinct;
                let is_known = |nth: i64| (number + nth) % 8 < known_in_8;
                (
                    is_known(0).then(|| number.wrapping_mul(factor)),
                    is_known(1).then(|| format!("task {}", number.wrapping_mul(factor))),
                    is_known(2).then_some(number % 3 == 0),
                )
            };
            let schema = Schema::new("made", WANTED);
            let mut cells = Cells::new(&schema);
            for row in 0..rows {
                let (number, text, truth) = made(row);
                cells.push([number.into(), Cell::from(text.as_deref()), truth.into()]);
            }
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("made.parquet"), encoded(&schema, &cells).unwrap()).unwrap();
            let expected: Vec<Row> = (0..rows).map(made).collect();
            prop_assert!(read(folder.path()).unwrap() == expected);
        }
    }
}
