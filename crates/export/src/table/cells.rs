//! Rows of a table in memory before they are written. Values are kept column by column.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use vmnoise_events::column::{self, Columns};

use super::{ColumnKind, Schema};

/// Value of one row in one column.
#[derive(Debug, Clone)]
pub(crate) enum Cell<'a> {
    Int(i64),
    Text(Cow<'a, str>),
    Bool(bool),
    Null,
}

impl<'a> Cell<'a> {
    /// Returns the value of a row in this column.
    fn of<R>(cell: &column::ColumnValue<'_, R>, row: &'a R) -> Cell<'a> {
        use column::ColumnValue as Of;
        match cell {
            Of::Words(of) => Cell::Text(of(row)),
            Of::Name(of) => of(row).into(),
            Of::Count(of) | Of::Time(of) => of(row).into(),
            Of::Truth(of) => of(row).into(),
            // Such columns are only for readers, so a file has no value for them.
            Of::Percent(_) | Of::Figure(_) | Of::Ranked(_) => Cell::Null,
        }
    }
}

/// Returns the values of a row in these columns.
pub(crate) fn cells<'a, R>(
    columns: &'a Columns<'_, R>,
    row: &'a R,
) -> impl Iterator<Item = Cell<'a>> {
    columns.0.iter().map(|column| Cell::of(&column.cell, row))
}

impl From<u64> for Cell<'_> {
    /// Converts a number. Numbers of 2^63 or more occur in no real run, and become the largest
    /// `i64`.
    fn from(value: u64) -> Self {
        Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell<'_> {
    fn from(value: u32) -> Self {
        Cell::Int(value.into())
    }
}

impl From<i64> for Cell<'_> {
    fn from(value: i64) -> Self {
        Cell::Int(value)
    }
}

impl From<bool> for Cell<'_> {
    fn from(value: bool) -> Self {
        Cell::Bool(value)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(value: &'a str) -> Self {
        Cell::Text(value.into())
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

/// Known values of one column, and which rows have a value.
#[derive(Debug)]
pub(crate) struct Values {
    /// 1 if the row has a value, 0 for null: the definition levels of Parquet.
    pub(crate) levels: Vec<i16>,
    pub(crate) known: Known,
}

#[derive(Debug)]
pub(crate) enum Known {
    Ints(Vec<i64>),
    Texts(Vec<Arc<str>>),
    Bools(Vec<bool>),
}

/// Batch of rows of one table.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) columns: Vec<Values>,
    rows: usize,
    /// All texts that occurred. Rows with the same text share one copy.
    texts: HashSet<Arc<str>>,
}

impl Cells {
    pub(crate) fn new(schema: &Schema) -> Cells {
        let columns = schema.columns.iter().map(|column| Values {
            levels: Vec::new(),
            known: match column.kind {
                ColumnKind::Int | ColumnKind::Time => Known::Ints(Vec::new()),
                ColumnKind::Text => Known::Texts(Vec::new()),
                ColumnKind::Bool => Known::Bools(Vec::new()),
            },
        });
        Cells {
            columns: columns.collect(),
            rows: 0,
            texts: HashSet::new(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row. The cells must be in the order of the columns.
    pub(crate) fn push<'a>(&mut self, row: impl IntoIterator<Item = Cell<'a>>) {
        let mut row = row.into_iter();
        for column in &mut self.columns {
            let is_known = match (&mut column.known, row.next()) {
                (Known::Ints(known), Some(Cell::Int(value))) => {
                    known.push(value);
                    true
                }
                (Known::Bools(known), Some(Cell::Bool(value))) => {
                    known.push(value);
                    true
                }
                (Known::Texts(known), Some(Cell::Text(value))) => {
                    known.push(kept(&mut self.texts, &value));
                    true
                }
                (_, cell) => {
                    debug_assert!(matches!(cell, Some(Cell::Null)), "{cell:?} in a row");
                    false
                }
            };
            column.levels.push(is_known.into());
        }
        debug_assert!(row.next().is_none(), "a row is longer than its table");
        self.rows += 1;
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        for column in &mut self.columns {
            column.levels.clear();
            match &mut column.known {
                Known::Ints(known) => known.clear(),
                Known::Texts(known) => known.clear(),
                Known::Bools(known) => known.clear(),
            }
        }
        self.texts.clear();
        self.rows = 0;
    }
}

fn kept(texts: &mut HashSet<Arc<str>>, value: &str) -> Arc<str> {
    if let Some(text) = texts.get(value) {
        return Arc::clone(text);
    }
    let text: Arc<str> = value.into();
    texts.insert(Arc::clone(&text));
    text
}
