//! State of a run at the end of a period, in the same form for every command.

use std::time::Duration;

use vmnoise_events::column::{self, Columns};

use crate::cells;

/// Heading of a column of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Title.
    pub name: String,
    /// Whether the column holds words, which are aligned to the left.
    pub words: bool,
}

/// Returns the headings of these columns.
pub fn headings<R>(columns: &Columns<'_, R>) -> Vec<Heading> {
    let columns = columns.0.iter();
    columns
        .map(|column| Heading {
            name: column.title.to_string(),
            words: !column.cell.is_figure(),
        })
        .collect()
}

/// Cell of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameCell {
    /// Text of the cell.
    pub text: String,
    /// Value for sorting, greatest first; `None` sorts by the text, after all known values.
    pub value: Option<f64>,
}

/// Returns the cells of a line, one for each column.
pub fn cells<R>(columns: &Columns<'_, R>, line: &R) -> Vec<FrameCell> {
    let cell = |cell: &column::ColumnValue<'_, R>| FrameCell {
        text: cells::of(cell, line),
        value: match cell {
            column::ColumnValue::Count(of) | column::ColumnValue::Time(of) => {
                of(line).map(|it| it as f64)
            }
            column::ColumnValue::Percent(of) => of(line),
            column::ColumnValue::Ranked(of) => of(line).1,
            _ => None,
        },
    };
    columns.0.iter().map(|column| cell(&column.cell)).collect()
}

/// Returns the number of a CPU, with a value that sorts CPUs in ascending order.
pub fn index(cpu: u32) -> (String, Option<f64>) {
    (cpu.to_string(), Some(-f64::from(cpu)))
}

/// Line of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameRow {
    /// Identity of the line, the same in each snapshot.
    pub key: u64,
    /// Cells, one for each column.
    pub cells: Vec<FrameCell>,
    /// Texts that a filter searches in addition to the cells.
    pub found_by: Vec<String>,
}

impl FrameRow {
    /// Creates a line; a filter searches only in its cells.
    pub fn new(key: u64, cells: Vec<FrameCell>) -> FrameRow {
        FrameRow {
            key,
            cells,
            found_by: Vec::new(),
        }
    }
}

/// Part of a gap's budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramePart {
    /// Length in nanoseconds.
    pub ns: u64,
    /// Share, and culprit if known.
    pub words: String,
}

/// Gap, wake-up or exit, with its budget.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameGap {
    /// Line in the list.
    pub row: FrameRow,
    /// Title of the budget.
    pub title: String,
    /// Parts of the budget, which add up to the length of the gap.
    pub parts: Vec<FramePart>,
}

impl FrameGap {
    /// Creates a gap; a filter also searches in the words of its parts.
    pub fn new(key: u64, cells: Vec<FrameCell>, title: String, parts: Vec<FramePart>) -> FrameGap {
        let found_by = parts.iter().map(|part| part.words.clone()).collect();
        FrameGap {
            row: FrameRow {
                found_by,
                ..FrameRow::new(key, cells)
            },
            title,
            parts,
        }
    }
}

/// Labels of a command's frame, which never change.
#[derive(Debug, Clone)]
pub struct FrameWords {
    /// Name of the command.
    pub command: &'static str,
    /// Title of the rows.
    pub rows: &'static str,
    /// Columns of the rows.
    pub row_columns: Vec<Heading>,
    /// Description of a row's curve.
    pub curve: &'static str,
    /// Title of the gaps.
    pub gaps: &'static str,
    /// Columns of the gaps.
    pub gap_columns: Vec<Heading>,
}

/// State of a run at the end of a period.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Time since the start of the run.
    pub elapsed: Duration,
    /// Main finding so far, in one line.
    pub headline: String,
    /// Rows, one for each CPU or for each vCPU and reason.
    pub rows: Vec<FrameRow>,
    /// Next point of each row's curve, by the row's key. Unknown points are left out.
    pub levels: Vec<(u64, f64)>,
    /// Longest gaps so far, longest first.
    pub gaps: Vec<FrameGap>,
}
