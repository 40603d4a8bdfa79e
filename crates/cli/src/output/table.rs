//! Plain columns, as the tools of this field print them: no borders, numbers to the right.

use comfy_table::{CellAlignment, Table, presets};

/// Renders rows under headings. `words` are the columns that do not hold numbers.
pub fn columns<const N: usize>(
    headings: [&str; N],
    words: &[usize],
    rows: &[[String; N]],
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((1, 1));
        if !words.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
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
