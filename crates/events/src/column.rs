//! Columns of a table. Each column defines its heading, unit and cells once, for every output
//! format.

use std::borrow::Cow;
use std::fmt;

/// One column of a table. Each row of the table shows one `R`.
#[derive(Debug)]
pub struct Column<'a, R> {
    /// Heading of the column.
    pub title: Cow<'a, str>,
    /// Contents of the cells below the heading.
    pub cell: ColumnValue<'a, R>,
}

/// Function that reads a column's value from a row.
pub type ColumnReader<'a, R, T> = Box<dyn Fn(&R) -> T + 'a>;

/// Function that reads a text from a row. The text may be borrowed from the row.
type WordsOf<'a, R> = dyn for<'r> Fn(&'r R) -> Cow<'r, str> + 'a;

/// Function that reads a name from a row.
type NameOf<'a, R> = dyn for<'r> Fn(&'r R) -> Option<&'r str> + 'a;

/// Contents of a column. The variant defines the unit; `None` is an unknown value.
pub enum ColumnValue<'a, R> {
    /// Words, aligned left.
    Words(Box<WordsOf<'a, R>>),
    /// Name of somebody or something.
    Name(Box<NameOf<'a, R>>),
    /// A whole number.
    Count(ColumnReader<'a, R, Option<u64>>),
    /// A duration in nanoseconds.
    Time(ColumnReader<'a, R, Option<u64>>),
    /// A ratio, in percent.
    Percent(ColumnReader<'a, R, Option<f64>>),
    /// A value that is already formatted as text.
    Figure(ColumnReader<'a, R, String>),
    /// A value that is already formatted as text, and the number by which rows are sorted.
    Ranked(ColumnReader<'a, R, (String, Option<f64>)>),
    /// Yes or no.
    Truth(ColumnReader<'a, R, bool>),
}

impl<R> ColumnValue<'_, R> {
    /// Returns whether the column holds figures. Figures are aligned right, other cells left.
    pub const fn is_figure(&self) -> bool {
        !matches!(
            self,
            ColumnValue::Words(_) | ColumnValue::Name(_) | ColumnValue::Truth(_)
        )
    }
}

impl<R> fmt::Debug for ColumnValue<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnValue::Words(_) => "Words",
            ColumnValue::Name(_) => "Name",
            ColumnValue::Count(_) => "Count",
            ColumnValue::Time(_) => "Time",
            ColumnValue::Percent(_) => "Percent",
            ColumnValue::Figure(_) => "Figure",
            ColumnValue::Ranked(_) => "Ranked",
            ColumnValue::Truth(_) => "Truth",
        })
    }
}

/// Columns in display order. Each method except [`Columns::each`] and [`Columns::and`] appends one
/// column.
#[derive(Debug)]
pub struct Columns<'a, R>(pub Vec<Column<'a, R>>);

impl<R> Default for Columns<'_, R> {
    fn default() -> Self {
        Columns(Vec::new())
    }
}

impl<'a, R> Columns<'a, R> {
    fn with(mut self, title: impl Into<Cow<'a, str>>, cell: ColumnValue<'a, R>) -> Self {
        let title = title.into();
        self.0.push(Column { title, cell });
        self
    }

    /// Appends a column of words.
    pub fn words(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl for<'r> Fn(&'r R) -> Cow<'r, str> + 'a,
    ) -> Columns<'a, R> {
        self.with(title, ColumnValue::Words(Box::new(of)))
    }

    /// Appends a column of names.
    pub fn name(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl for<'r> Fn(&'r R) -> Option<&'r str> + 'a,
    ) -> Columns<'a, R> {
        self.with(title, ColumnValue::Name(Box::new(of)))
    }

    /// Appends a column of whole numbers.
    pub fn count<N: Into<Option<u64>>>(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> N + 'a,
    ) -> Columns<'a, R> {
        self.with(
            title,
            ColumnValue::Count(Box::new(move |row| of(row).into())),
        )
    }

    /// Appends a column of times in nanoseconds.
    pub fn time<N: Into<Option<u64>>>(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> N + 'a,
    ) -> Columns<'a, R> {
        self.with(
            title,
            ColumnValue::Time(Box::new(move |row| of(row).into())),
        )
    }

    /// Appends a column of percentages.
    pub fn percent<N: Into<Option<f64>>>(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> N + 'a,
    ) -> Columns<'a, R> {
        self.with(
            title,
            ColumnValue::Percent(Box::new(move |row| of(row).into())),
        )
    }

    /// Appends a column of values that `of` formats as text.
    pub fn figure(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> String + 'a,
    ) -> Columns<'a, R> {
        self.with(title, ColumnValue::Figure(Box::new(of)))
    }

    /// Appends a column of values that `of` formats as text. `of` also returns the number to sort
    /// by.
    pub fn ranked(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> (String, Option<f64>) + 'a,
    ) -> Columns<'a, R> {
        self.with(title, ColumnValue::Ranked(Box::new(of)))
    }

    /// Appends a column of yes or no.
    pub fn truth(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> bool + 'a,
    ) -> Columns<'a, R> {
        self.with(title, ColumnValue::Truth(Box::new(of)))
    }

    /// Calls `add` with the columns so far and each item of `of`, and returns the resulting
    /// columns.
    pub fn each<T>(
        self,
        of: impl IntoIterator<Item = T>,
        add: impl Fn(Columns<'a, R>, T) -> Columns<'a, R>,
    ) -> Columns<'a, R> {
        of.into_iter().fold(self, add)
    }

    /// Appends the columns of `more`.
    pub fn and(mut self, more: Columns<'a, R>) -> Columns<'a, R> {
        self.0.extend(more.0);
        self
    }
}
