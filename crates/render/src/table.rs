//! Tables in the usual layout of performance tools: no borders, numbers aligned right.

use comfy_table::{CellAlignment, Table, presets};
use vmnoise_events::column::Columns;

use super::cells;

/// Renders a row for each item of `rows`.
pub fn of<'a, R>(rows: &[R], columns: impl FnOnce(Columns<'a, R>) -> Columns<'a, R>) -> String {
    let Columns(columns) = columns(Columns::default());
    let mut table = Table::new();
    let headings = columns.iter().map(|column| &*column.title);
    table.load_preset(presets::NOTHING).set_header(headings);
    for row in rows {
        table.add_row(columns.iter().map(|column| cells::of(&column.cell, row)));
    }
    for (drawn, column) in table.column_iter_mut().zip(&columns) {
        drawn.set_padding((1, 1));
        if column.cell.is_figure() {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text: String = table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    if rows.is_empty() {
        text.push_str(" (none)\n");
    }
    text
}
