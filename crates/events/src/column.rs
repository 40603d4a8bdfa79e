//! The columns of a table: heading, unit and cells of each in one place, for all that show it.

use std::borrow::Cow;
use std::fmt;

/// One column of a table with a row for each `R`.
#[derive(Debug)]
pub struct Column<'a, R> {
    /// Its heading.
    pub title: Cow<'a, str>,
    /// What stands below it.
    pub cell: Cell<'a, R>,
}

/// Finds in a row what stands in a column.
pub type Of<'a, R, T> = Box<dyn Fn(&R) -> T + 'a>;

/// Finds words in a row, which may hold them itself.
type WordsOf<'a, R> = dyn for<'r> Fn(&'r R) -> Cow<'r, str> + 'a;

/// Likewise a name.
type NameOf<'a, R> = dyn for<'r> Fn(&'r R) -> Option<&'r str> + 'a;

/// What stands in a column, by its unit. `None` is what is unknown.
pub enum Cell<'a, R> {
    /// Words, which begin on the left.
    Words(Box<WordsOf<'a, R>>),
    /// What somebody or something is called.
    Name(Box<NameOf<'a, R>>),
    /// A whole number.
    Count(Of<'a, R, Option<u64>>),
    /// A length of time, in nanoseconds.
    Time(Of<'a, R, Option<u64>>),
    /// A part of something, in percent.
    Percent(Of<'a, R, Option<f64>>),
    /// A figure that is written in its own way.
    Figure(Of<'a, R, String>),
    /// Likewise, and the number by which it is sorted.
    Ranked(Of<'a, R, (String, Option<f64>)>),
    /// Yes or no.
    Truth(Of<'a, R, bool>),
}

impl<R> Cell<'_, R> {
    /// Whether it holds figures, which end on the right.
    pub const fn is_figure(&self) -> bool {
        !matches!(self, Cell::Words(_) | Cell::Name(_) | Cell::Truth(_))
    }
}

impl<R> fmt::Debug for Cell<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cell::Words(_) => "Words",
            Cell::Name(_) => "Name",
            Cell::Count(_) => "Count",
            Cell::Time(_) => "Time",
            Cell::Percent(_) => "Percent",
            Cell::Figure(_) => "Figure",
            Cell::Ranked(_) => "Ranked",
            Cell::Truth(_) => "Truth",
        })
    }
}

/// Columns in their order: each method adds one behind.
#[derive(Debug)]
pub struct Columns<'a, R>(pub Vec<Column<'a, R>>);

impl<R> Default for Columns<'_, R> {
    fn default() -> Self {
        Columns(Vec::new())
    }
}

impl<'a, R> Columns<'a, R> {
    fn with(mut self, title: impl Into<Cow<'a, str>>, cell: Cell<'a, R>) -> Self {
        let title = title.into();
        self.0.push(Column { title, cell });
        self
    }

    /// Words.
    pub fn words(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl for<'r> Fn(&'r R) -> Cow<'r, str> + 'a,
    ) -> Columns<'a, R> {
        self.with(title, Cell::Words(Box::new(of)))
    }

    /// What somebody or something is called.
    pub fn name(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl for<'r> Fn(&'r R) -> Option<&'r str> + 'a,
    ) -> Columns<'a, R> {
        self.with(title, Cell::Name(Box::new(of)))
    }

    /// A whole number.
    pub fn count<N: Into<Option<u64>>>(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> N + 'a,
    ) -> Columns<'a, R> {
        self.with(title, Cell::Count(Box::new(move |row| of(row).into())))
    }

    /// Nanoseconds.
    pub fn time<N: Into<Option<u64>>>(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> N + 'a,
    ) -> Columns<'a, R> {
        self.with(title, Cell::Time(Box::new(move |row| of(row).into())))
    }

    /// Percent.
    pub fn percent<N: Into<Option<f64>>>(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> N + 'a,
    ) -> Columns<'a, R> {
        self.with(title, Cell::Percent(Box::new(move |row| of(row).into())))
    }

    /// A figure that is written in its own way.
    pub fn figure(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> String + 'a,
    ) -> Columns<'a, R> {
        self.with(title, Cell::Figure(Box::new(of)))
    }

    /// Likewise, and the number by which it is sorted.
    pub fn ranked(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> (String, Option<f64>) + 'a,
    ) -> Columns<'a, R> {
        self.with(title, Cell::Ranked(Box::new(of)))
    }

    /// Yes or no.
    pub fn truth(
        self,
        title: impl Into<Cow<'a, str>>,
        of: impl Fn(&R) -> bool + 'a,
    ) -> Columns<'a, R> {
        self.with(title, Cell::Truth(Box::new(of)))
    }

    /// What `add` adds for each of these.
    pub fn each<T>(
        self,
        of: impl IntoIterator<Item = T>,
        add: impl Fn(Columns<'a, R>, T) -> Columns<'a, R>,
    ) -> Columns<'a, R> {
        of.into_iter().fold(self, add)
    }

    /// Others behind these.
    pub fn and(mut self, more: Columns<'a, R>) -> Columns<'a, R> {
        self.0.extend(more.0);
        self
    }
}
