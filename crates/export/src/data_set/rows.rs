//! Reads selected columns of a Parquet file in batches of rows. The size of the file's row groups
//! does not matter.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, TimeUnit, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::ColumnDescPtr;

use super::error::{DataSetError, io_error, parquet_error};
use super::values::{Column, Values};
use crate::table::ColumnKind;

/// Number of rows in a batch.
const ROWS_AT_ONCE: usize = 8_192;

/// Names and kinds of the columns to read.
pub(super) type Wanted = &'static [(&'static str, ColumnKind)];

/// Reader of one table of a run.
pub(super) struct Table {
    path: Arc<Path>,
    file: Arc<File>,
    metadata: ParquetMetaData,
    wanted: Wanted,
    /// Indices of the selected columns in the Parquet file.
    places: Vec<usize>,
    /// Number of the next row group. `columns` belongs to the current row group.
    group: usize,
    columns: Vec<Column>,
    /// Number of rows that were read so far.
    rows: u64,
}

/// Batch of rows of a table.
pub(super) struct Batch {
    path: Arc<Path>,
    wanted: Wanted,
    columns: Vec<Values>,
    /// Number of the batch's first row in the table.
    first: u64,
    rows: usize,
}

impl Table {
    /// Opens the table `name` of the run in this folder. Only the columns `wanted` are read.
    pub(super) fn open(folder: &Path, name: &str, wanted: Wanted) -> Result<Table, DataSetError> {
        let path = folder.join(format!("{name}.parquet"));
        let file = File::open(&path).map_err(io_error(&path))?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file);
        let metadata = metadata.map_err(parquet_error(&path))?;
        let schema = metadata.file_metadata().schema_descr();
        let places = wanted.iter().map(|(name, kind)| {
            let columns = &mut schema.columns().iter();
            let place = columns.position(|it| it.path().parts() == [*name]);
            let place = place.filter(|place| holds(&schema.column(*place), *kind));
            place.ok_or_else(|| DataSetError::Table {
                path: path.clone(),
                what: format!("it has no column `{name}` ({})", kind.name()),
            })
        });
        Ok(Table {
            places: places.collect::<Result<_, DataSetError>>()?,
            path: path.into(),
            file: Arc::new(file),
            metadata,
            wanted,
            group: 0,
            columns: Vec::new(),
            rows: 0,
        })
    }

    /// Returns whether the file has columns with all of these names.
    pub(super) fn has(&self, columns: Wanted) -> bool {
        let stored = self.metadata.file_metadata().schema_descr().columns();
        let has = |name: &str| stored.iter().any(|it| it.path().parts() == [name]);
        columns.iter().all(|column| has(column.0))
    }

    /// Returns the next batch of rows; `None` after the last row.
    pub(super) fn next(&mut self) -> Result<Option<Batch>, DataSetError> {
        loop {
            let read = self.columns.iter_mut().map(|it| it.read(ROWS_AT_ONCE));
            let columns = read.collect::<Result<Vec<_>, _>>();
            let columns = columns.map_err(parquet_error(&self.path))?;
            let rows = columns.iter().map(Values::len).max().unwrap_or(0);
            if rows == 0 {
                if self.group == self.metadata.num_row_groups() {
                    return Ok(None);
                }
                let opened = self.open_group(self.group);
                self.columns = opened.map_err(parquet_error(&self.path))?;
                self.group += 1;
                continue;
            }
            let first = self.rows;
            self.rows += rows as u64;
            let batch = Batch {
                path: Arc::clone(&self.path),
                wanted: self.wanted,
                columns,
                first,
                rows,
            };
            return match batch.columns.iter().position(|it| it.len() != rows) {
                None => Ok(Some(batch)),
                Some(column) => Err(batch.fault(column, 0, "has not as many rows as others")),
            };
        }
    }

    /// Returns an error about this table.
    pub(super) fn fault(&self, what: &str) -> DataSetError {
        DataSetError::Table {
            path: self.path.to_path_buf(),
            what: what.to_owned(),
        }
    }

    fn open_group(&self, group: usize) -> Result<Vec<Column>, ParquetError> {
        let group = self.metadata.row_group(group);
        let columns = self.places.iter();
        let columns = columns.map(|place| Column::open(&self.file, group.column(*place)));
        columns.collect()
    }
}

/// Returns whether a column has this kind, and at most one value in each row.
fn holds(column: &ColumnDescPtr, kind: ColumnKind) -> bool {
    let physical = match kind {
        ColumnKind::Int | ColumnKind::Time => PhysicalType::INT64,
        ColumnKind::Text => PhysicalType::BYTE_ARRAY,
        ColumnKind::Bool => PhysicalType::BOOLEAN,
    };
    let is_in_microseconds = matches!(
        column.logical_type_ref(),
        Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::MICROS
    );
    let is_flat = column.max_rep_level() == 0 && column.max_def_level() <= 1;
    is_flat
        && column.physical_type() == physical
        && (kind != ColumnKind::Time || is_in_microseconds)
}

impl Batch {
    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns a count, a length or a time; `None` if the value is null.
    pub(super) fn maybe(&self, column: usize, row: usize) -> Result<Option<u64>, DataSetError> {
        let value = self.int(column, row);
        value
            .map(|value| {
                let counted = u64::try_from(value);
                counted.map_err(|_| self.fault(column, row, &format!("is {value}")))
            })
            .transpose()
    }

    /// Returns a number. A null value is an error.
    pub(super) fn count(&self, column: usize, row: usize) -> Result<u64, DataSetError> {
        let value = self.maybe(column, row)?;
        value.ok_or_else(|| self.fault(column, row, "is not known"))
    }

    /// Returns the number of a CPU. A null value is an error.
    pub(super) fn cpu(&self, column: usize, row: usize) -> Result<u32, DataSetError> {
        let number = self.count(column, row)?;
        let cpu = u32::try_from(number);
        cpu.map_err(|_| self.fault(column, row, &format!("is {number}")))
    }

    fn int(&self, column: usize, row: usize) -> Option<i64> {
        match &self.columns[column] {
            Values::Ints(ints) => ints[row],
            _ => None,
        }
    }

    /// Returns a text; `None` if the value is null.
    pub(super) fn text(&self, column: usize, row: usize) -> Option<&str> {
        match &self.columns[column] {
            Values::Texts(texts) => texts[row].as_deref(),
            _ => None,
        }
    }

    /// Returns a Boolean; `None` if the value is null.
    pub(super) fn truth(&self, column: usize, row: usize) -> Option<bool> {
        match &self.columns[column] {
            Values::Bools(bools) => bools[row],
            _ => None,
        }
    }

    /// Returns an error about the value in this column and row.
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

    const WANTED: Wanted = &[
        ("n", ColumnKind::Int),
        ("who", ColumnKind::Text),
        ("is", ColumnKind::Bool),
    ];

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

        /// Covers dictionaries with few and with many values, plain values after a dictionary grew
        /// too large, several pages and batches, and nulls.
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
