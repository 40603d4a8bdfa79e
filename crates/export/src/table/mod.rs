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
pub enum Kind {
    /// A whole number of 64 bits.
    Int,
    /// Text in UTF-8.
    Text,
    /// True or false.
    Bool,
    /// A time in UTC, to the microsecond.
    Time,
}

impl Kind {
    fn of<R>(cell: &column::Cell<'_, R>) -> Kind {
        match cell {
            column::Cell::Words(_) | column::Cell::Name(_) => Kind::Text,
            column::Cell::Truth(_) => Kind::Bool,
            _ => Kind::Int,
        }
    }

    /// Returns the name of the kind in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Int => "int",
            Kind::Text => "text",
            Kind::Bool => "bool",
            Kind::Time => "time",
        }
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name of the column, which ends with the unit if the values have one.
    pub name: String,
    /// Kind of the column's values.
    pub kind: Kind,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Name of the table and of its file.
    pub name: &'static str,
    /// Columns in their order.
    pub columns: Vec<Column>,
}

impl Schema {
    pub(crate) fn new(name: &'static str, columns: &[(&str, Kind)]) -> Schema {
        Schema {
            name,
            columns: Vec::new(),
        }
        .with(columns)
    }

    /// Like `new`, with these columns at the end.
    pub(crate) fn with_columns<R>(self, columns: &Columns<'_, R>) -> Schema {
        let columns = columns.0.iter();
        let columns = columns.map(|column| (&*column.title, Kind::of(&column.cell)));
        self.with(&columns.collect::<Vec<_>>())
    }

    /// Like `with_columns`, with more columns at the end.
    pub(crate) fn with(mut self, columns: &[(&str, Kind)]) -> Schema {
        let more = columns.iter().map(|(name, kind)| Column {
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
