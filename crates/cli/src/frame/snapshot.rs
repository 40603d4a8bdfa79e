//! What a command shows of its run at one moment: the same for all of them.

use std::time::Duration;

use vmnoise_events::column::{self, Columns};

use crate::output::cells;

/// The head of a column of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// What it says.
    pub name: String,
    /// Whether words stand below it, which begin on the left.
    pub words: bool,
}

/// Those of these columns.
pub fn headings<R>(columns: &Columns<'_, R>) -> Vec<Heading> {
    let columns = columns.0.iter();
    columns
        .map(|column| Heading {
            name: column.title.to_string(),
            words: !column.cell.is_figure(),
        })
        .collect()
}

/// One place in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// What it is sorted by, the greatest first; `None` sorts by the text, and unknown
    /// values behind all others.
    pub value: Option<f64>,
}

/// What a line has in each of these columns.
pub fn cells<R>(columns: &Columns<'_, R>, line: &R) -> Vec<Cell> {
    let cell = |cell: &column::Cell<'_, R>| Cell {
        text: cells::of(cell, line),
        value: match cell {
            column::Cell::Count(of) | column::Cell::Time(of) => of(line).map(|it| it as f64),
            column::Cell::Percent(of) => of(line),
            column::Cell::Ranked(of) => of(line).1,
            _ => None,
        },
    };
    columns.0.iter().map(|column| cell(&column.cell)).collect()
}

/// The number of a CPU, which is sorted from the first to the last.
pub fn index(cpu: u32) -> (String, Option<f64>) {
    (cpu.to_string(), Some(-f64::from(cpu)))
}

/// One line of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Says which it is from one moment to the next.
    pub key: u64,
    /// As many as there are columns.
    pub cells: Vec<Cell>,
    /// What a filter finds it by beside its cells.
    pub found_by: Vec<String>,
}

impl Row {
    /// A line that a filter finds by what it shows.
    pub fn new(key: u64, cells: Vec<Cell>) -> Row {
        Row {
            key,
            cells,
            found_by: Vec::new(),
        }
    }
}

/// One part of a gap's budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// How long.
    pub ns: u64,
    /// Under which share, and who it was.
    pub words: String,
}

/// A gap, or what else took time, with its budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// Its line in the list.
    pub row: Row,
    /// The first line of its budget.
    pub title: String,
    /// Adds up to its length.
    pub parts: Vec<Part>,
}

impl Gap {
    /// A gap that a filter finds by all who had a part of it.
    pub fn new(key: u64, cells: Vec<Cell>, title: String, parts: Vec<Part>) -> Gap {
        let found_by = parts.iter().map(|part| part.words.clone()).collect();
        Gap {
            row: Row {
                found_by,
                ..Row::new(key, cells)
            },
            title,
            parts,
        }
    }
}

/// The words of a command's frame, which stay the same.
#[derive(Debug, Clone)]
pub struct Words {
    /// The command.
    pub command: &'static str,
    /// What the rows are.
    pub rows: &'static str,
    /// Their columns.
    pub row_columns: Vec<Heading>,
    /// What the curve of a row shows.
    pub curve: &'static str,
    /// What the gaps are.
    pub gaps: &'static str,
    /// Their columns.
    pub gap_columns: Vec<Heading>,
}

/// The state of a run when a period is over.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Since its start.
    pub elapsed: Duration,
    /// The finding so far, in one line.
    pub headline: String,
    /// What it is about: CPUs, or vCPUs.
    pub rows: Vec<Row>,
    /// The next point of each row's curve, by the row's key; one that is unknown is left out.
    pub levels: Vec<(u64, f64)>,
    /// The longest so far, the longest first.
    pub gaps: Vec<Gap>,
}
