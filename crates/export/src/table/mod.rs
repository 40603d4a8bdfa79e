//! Tables whose columns have one definition for all file formats.

mod cells;
mod csv;
mod file;
mod parquet;

use vmnoise_events::column::{self, Columns};

pub(crate) use cells::{Cell, Cells, cells};
pub(crate) use file::TableFile;
pub(crate) use parquet::encoded;

/// Version of the tables. It increases when a column's meaning changes or a column is removed.
pub const DATA_VERSION: u32 = 1;

/// Kind of a column's values. All kinds allow null, which is an empty field in CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// A whole number of 64 bits.
    Int,
    /// Text in UTF-8.
    Text,
    /// True or false.
    Bool,
    /// A time in UTC, to the microsecond.
    Time,
}

impl ColumnKind {
    fn of<R>(cell: &column::ColumnValue<'_, R>) -> ColumnKind {
        match cell {
            column::ColumnValue::Words(_) | column::ColumnValue::Name(_) => ColumnKind::Text,
            column::ColumnValue::Truth(_) => ColumnKind::Bool,
            _ => ColumnKind::Int,
        }
    }

    /// Returns the name of the kind in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            ColumnKind::Int => "int",
            ColumnKind::Text => "text",
            ColumnKind::Bool => "bool",
            ColumnKind::Time => "time",
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the column. It ends with the unit if the values have a unit.
    pub name: String,
    /// Kind of the column's values.
    pub kind: ColumnKind,
}

/// Name and columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Name of the table, and of the table's file without its suffix.
    pub name: &'static str,
    /// Columns of the table, in their order.
    pub columns: Vec<TableColumn>,
}

impl Schema {
    pub(crate) fn new(name: &'static str, columns: &[(&str, ColumnKind)]) -> Schema {
        Schema {
            name,
            columns: Vec::new(),
        }
        .with(columns)
    }

    /// Adds the columns that are defined in `columns` at the end.
    pub(crate) fn with_columns<R>(self, columns: &Columns<'_, R>) -> Schema {
        let columns = columns.0.iter();
        let columns = columns.map(|column| (&*column.title, ColumnKind::of(&column.cell)));
        self.with(&columns.collect::<Vec<_>>())
    }

    /// Adds columns with these names and kinds at the end.
    pub(crate) fn with(mut self, columns: &[(&str, ColumnKind)]) -> Schema {
        let more = columns.iter().map(|(name, kind)| TableColumn {
            name: (*name).to_owned(),
            kind: *kind,
        });
        self.columns.extend(more);
        self
    }
}

/// Format of exported tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// Like `Csv`, but safe for spreadsheets. A text that a spreadsheet would run as a formula gets
    /// a `'` in front.
    SpreadsheetCsv,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

impl Encoding {
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Encoding::Csv | Encoding::SpreadsheetCsv => "csv",
            Encoding::Parquet => "parquet",
        }
    }
}
