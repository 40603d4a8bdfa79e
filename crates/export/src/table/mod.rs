//! Tables: the columns have one definition for all file formats.

mod cells;
mod csv;
mod file;
mod parquet;

use vmnoise_events::column::{self, Columns};

pub(crate) use cells::{Cell, Cells, cells};
pub(crate) use file::TableFile;
pub(crate) use parquet::encoded;

/// Version of all columns: it increases when a column changes its meaning or is removed.
pub const DATA_VERSION: u32 = 1;

/// Kind of a column. Unknown is null in all kinds: in CSV an empty field.
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

    /// Returns the name of the kind in documents.
    pub const fn name(self) -> &'static str {
        match self {
            ColumnKind::Int => "int",
            ColumnKind::Text => "text",
            ColumnKind::Bool => "bool",
            ColumnKind::Time => "time",
        }
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the column, which ends with the unit if the values have one.
    pub name: String,
    /// Kind of the column's values.
    pub kind: ColumnKind,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Name of the table and of its file.
    pub name: &'static str,
    /// Columns in their order.
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

    /// Like `new`, with these columns at the end.
    pub(crate) fn with_columns<R>(self, columns: &Columns<'_, R>) -> Schema {
        let columns = columns.0.iter();
        let columns = columns.map(|column| (&*column.title, ColumnKind::of(&column.cell)));
        self.with(&columns.collect::<Vec<_>>())
    }

    /// Like `with_columns`, with more columns at the end.
    pub(crate) fn with(mut self, columns: &[(&str, ColumnKind)]) -> Schema {
        let more = columns.iter().map(|(name, kind)| TableColumn {
            name: (*name).to_owned(),
            kind: *kind,
        });
        self.columns.extend(more);
        self
    }
}

/// Format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// Like `Csv`, but safe for spreadsheets: a text that they would run as a formula has a `'`
    /// before it.
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
