//! Tables: columns with one definition, whatever file they go to.

mod cells;
mod csv;
mod file;
mod parquet;

use vmnoise_events::column::{self, Columns};

pub(crate) use cells::{Cell, Cells, cells};
pub(crate) use file::TableFile;
pub(crate) use parquet::encoded;

/// The version of all columns: it changes when one changes its meaning or goes.
pub const DATA_VERSION: u32 = 1;

/// What a column holds. Unknown is null in any of them: in CSV nothing between the commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number of 64 bits.
    Int,
    /// Text in UTF-8.
    Text,
    /// Yes or no.
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

    /// The word for it in documents.
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
    /// Its name, which ends with its unit where it has one.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// Its columns, in their order.
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

    /// As `new`, with these columns behind.
    pub(crate) fn with_columns<R>(self, columns: &Columns<'_, R>) -> Schema {
        let columns = columns.0.iter();
        let columns = columns.map(|column| (&*column.title, Kind::of(&column.cell)));
        self.with(&columns.collect::<Vec<_>>())
    }

    /// As `with_columns`, with more columns behind.
    pub(crate) fn with(mut self, columns: &[(&str, Kind)]) -> Schema {
        let more = columns.iter().map(|(name, kind)| Column {
            name: (*name).to_owned(),
            kind: *kind,
        });
        self.columns.extend(more);
        self
    }
}

/// What the files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// As `Csv`, for people who open it in a spreadsheet: a text that one would run as a
    /// formula has a `'` before it.
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
