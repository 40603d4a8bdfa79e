//! Tables: readable as they are, and sortable where scripts run.

mod compare;
mod exits;
mod found;
mod lanes;
mod phases;
mod takers;

pub(crate) use compare::compare;

use crate::figures::{count, duration_or_dash, percent};
use crate::run::{Outcome, Run};

/// One field, and the number that it is sorted by.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) text: String,
    /// Unknown sorts below everything.
    pub(crate) rank: Option<f64>,
    pub(crate) is_number: bool,
}

/// A table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// What has to be said below it; may be empty.
    pub(crate) note: String,
    /// Name of each column, and whether it holds numbers.
    pub(crate) columns: Vec<(String, bool)>,
    pub(crate) rows: Vec<Vec<Field>>,
}

impl Table {
    fn new(title: &str, columns: &[(&str, bool)]) -> Table {
        Table {
            title: title.into(),
            note: String::new(),
            columns: columns
                .iter()
                .map(|(name, number)| ((*name).into(), *number))
                .collect(),
            rows: Vec::new(),
        }
    }
}

fn words(text: impl Into<String>) -> Field {
    Field {
        text: text.into(),
        rank: None,
        is_number: false,
    }
}

fn time(ns: impl Into<Option<u64>>) -> Field {
    let ns = ns.into();
    Field {
        text: duration_or_dash(ns),
        rank: ns.map(|ns| ns as f64),
        is_number: true,
    }
}

fn number(value: impl Into<Option<u64>>) -> Field {
    let value = value.into();
    Field {
        text: value.map_or_else(|| "-".into(), count),
        rank: value.map(|value| value as f64),
        is_number: true,
    }
}

fn share_of(value: Option<f64>) -> Field {
    Field {
        text: value.map_or_else(|| "-".into(), percent),
        rank: value,
        is_number: true,
    }
}

const NUMBER: bool = true;
const WORD: bool = false;

/// The tables that follow the charts.
pub(crate) fn tables(run: &Run) -> Vec<Table> {
    let mut tables = vec![
        lanes::overview(run),
        takers::takers(run),
        phases::phases(run),
        lanes::shares(run),
    ];
    match &run.outcome {
        Outcome::Exits(_) => tables.push(exits::reasons(run)),
        Outcome::Joined(_) => tables.push(found::pairs(run)),
        Outcome::Gaps(_) | Outcome::Wakeups(_) => {}
    }
    tables.push(found::periodic(run));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// What is to be said where not all lanes are drawn.
pub(crate) fn some_of(shown: usize, all: usize, what: &str) -> String {
    match shown < all {
        true => format!(" The {shown} noisiest of {all} {what}s are drawn; the table has all."),
        false => String::new(),
    }
}
