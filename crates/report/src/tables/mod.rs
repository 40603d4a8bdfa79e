//! Tables that are readable without scripts. Scripts make them sortable.

mod compare;
mod exits;
mod figures;
mod fleet;
mod found;
mod lanes;
mod phases;
mod takers;
mod two_groups;

pub(crate) use compare::compare;
pub(crate) use fleet::fleet;

use vmnoise_events::column::{ColumnValue, Columns};

use crate::figures::{count, duration_or_dash, percent};
use crate::run::{ReportedRun, RunOutcome};

/// One field of a table, and the number by which it is sorted.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) text: String,
    /// Number for sorting; `None` if unknown. Unknown values sort below all others.
    pub(crate) rank: Option<f64>,
    pub(crate) is_number: bool,
}

/// A table of the page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Note below the table; may be empty.
    pub(crate) note: String,
    /// Name of each column, and whether it contains numbers.
    pub(crate) columns: Vec<(String, bool)>,
    pub(crate) rows: Vec<Vec<Field>>,
}

impl Table {
    /// Returns a table with one row for each element of `rows`.
    fn of<'a, R>(
        title: &str,
        rows: &[R],
        columns: impl FnOnce(Columns<'a, R>) -> Columns<'a, R>,
    ) -> Table {
        let Columns(columns) = columns(Columns::default());
        let row = |row: &R| columns.iter().map(|it| field(&it.cell, row)).collect();
        Table {
            title: title.into(),
            note: String::new(),
            columns: columns
                .iter()
                .map(|it| (it.title.to_string(), it.cell.is_figure()))
                .collect(),
            rows: rows.iter().map(row).collect(),
        }
    }

    fn noted(self, note: impl Into<String>) -> Table {
        Table {
            note: note.into(),
            ..self
        }
    }
}

fn field<R>(cell: &ColumnValue<'_, R>, row: &R) -> Field {
    let known = |value: Option<u64>| value.map(|value| value as f64);
    let (text, rank) = match cell {
        ColumnValue::Words(of) => (of(row).into_owned(), None),
        ColumnValue::Name(of) => (of(row).unwrap_or("-").into(), None),
        ColumnValue::Count(of) => (of(row).map_or_else(|| "-".into(), count), known(of(row))),
        ColumnValue::Time(of) => (duration_or_dash(of(row)), known(of(row))),
        ColumnValue::Percent(of) => (of(row).map_or_else(|| "-".into(), percent), of(row)),
        ColumnValue::Figure(of) => (of(row), None),
        ColumnValue::Ranked(of) => of(row),
        ColumnValue::Truth(of) => (if of(row) { "yes" } else { "no" }.into(), None),
    };
    Field {
        text,
        rank,
        is_number: cell.is_figure(),
    }
}

/// Returns the tables that follow the charts.
pub(crate) fn tables(run: &ReportedRun) -> Vec<Table> {
    let mut tables = vec![
        lanes::overview(run),
        takers::takers(run),
        phases::phases(run),
        lanes::shares(run),
    ];
    match &run.outcome {
        RunOutcome::Exits(_) => tables.push(exits::reasons(run)),
        RunOutcome::Joined(_) => tables.push(found::pairs(run)),
        RunOutcome::Gaps(_) | RunOutcome::Wakeups(_) => {}
    }
    tables.push(found::periodic(run));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Returns a note that charts leave out some CPUs or vCPUs; empty if they show all.
pub(crate) fn some_of(shown: usize, all: usize, what: &str) -> String {
    match shown < all {
        true => format!(" The {shown} noisiest of {all} {what}s are drawn; the table has all."),
        false => String::new(),
    }
}
