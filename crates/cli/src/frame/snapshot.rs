//! What a command shows of its run at one moment: the same for all of them.

use std::time::Duration;

/// A column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// Whether it holds words, which begin on the left.
    pub words: bool,
}

/// A column of numbers.
pub const fn figures(name: &'static str) -> Column {
    Column { name, words: false }
}

/// A column of words.
pub const fn words(name: &'static str) -> Column {
    Column { name, words: true }
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

impl Cell {
    /// A cell that is sorted by its text.
    pub fn words(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            value: None,
        }
    }

    /// The number of a CPU: from the first to the last.
    pub fn index(cpu: u32) -> Cell {
        Cell {
            text: cpu.to_string(),
            value: Some(-f64::from(cpu)),
        }
    }

    /// A number and how it is written; `-` where it is unknown.
    pub fn number(value: Option<u64>, written: impl FnOnce(u64) -> String) -> Cell {
        Cell {
            text: value.map_or_else(|| "-".into(), written),
            value: value.map(|value| value as f64),
        }
    }
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
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The command.
    pub command: &'static str,
    /// What the rows are.
    pub rows: &'static str,
    /// Their columns.
    pub row_columns: &'static [Column],
    /// What the curve of a row shows.
    pub curve: &'static str,
    /// What the gaps are.
    pub gaps: &'static str,
    /// Their columns.
    pub gap_columns: &'static [Column],
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
