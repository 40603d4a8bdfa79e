//! List under its heading, with the columns that fit and the chosen line visible.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{self, Table, TableState};

use super::Setting;
use crate::frame::model::{Model, Pane, lines};
use crate::frame::snapshot::{FrameRow, Heading};
use crate::frame::term_style::TermStyle;

/// Space between two columns, and before the first column.
const SPACE: u16 = 2;
/// Least width of the last column if it holds words.
const LEAST_WORDS: u16 = 12;

/// Draws one of the two lists.
pub fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, pane: Pane, setting: &Setting) {
    let words = &setting.words;
    let snapshot = model.shown();
    let (name, columns, list, rows) = match pane {
        Pane::Rows => {
            let rows = Vec::from_iter(&snapshot.rows);
            (words.rows, &words.row_columns, &model.rows, rows)
        }
        Pane::Gaps => (
            words.gaps,
            &words.gap_columns,
            &model.gaps,
            lines(&snapshot.gaps),
        ),
    };
    let term = setting.term;
    let shown = list.shown(&rows);
    let mut heading = name.to_owned();
    if let Some(column) = list.sorted_by {
        heading += &format!(" by {}", columns[column].name);
    }
    if !list.filter.is_empty() {
        let (some, all) = (shown.len(), rows.len());
        heading += &term.text(&format!(", {some} of {all} with `{}`", list.filter));
    }
    let has_keys = model.pane == pane;
    let [top, table] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Line::styled(heading, term.heading()), top);
    let rows: Vec<&FrameRow> = shown.iter().map(|index| rows[*index]).collect();
    let widths = widths(columns, &rows);
    let fit = fitting(columns, &widths, table.width);
    let last = fit.last().copied();
    let constraints = fit.iter().map(|&index| match columns[index].words {
        // The last column may be cut off if it holds words.
        true if Some(index) == last => Constraint::Min(LEAST_WORDS),
        _ => Constraint::Length(widths[index]),
    });
    let header = fit
        .iter()
        .map(|&index| aligned(columns[index].name.clone(), &columns[index]));
    let body = rows.iter().map(|row| line(row, columns, &fit, term));
    let place = rows.iter().position(|row| Some(row.key) == list.chosen);
    let mut state = TableState::new().with_selected(place.or((!rows.is_empty()).then_some(0)));
    let table_widget = Table::new(body, constraints)
        .header(widgets::Row::new(header))
        .column_spacing(SPACE)
        .highlight_symbol("> ")
        .row_highlight_style(term.chosen(has_keys));
    frame.render_stateful_widget(table_widget, table, &mut state);
}

fn line(
    row: &FrameRow,
    columns: &[Heading],
    fit: &[usize],
    term: TermStyle,
) -> widgets::Row<'static> {
    let cells = fit.iter();
    widgets::Row::new(
        cells.map(|&index| aligned(term.text(&row.cells[index].text), &columns[index])),
    )
}

fn aligned(text: String, column: &Heading) -> Line<'static> {
    Line::raw(text).alignment(match column.words {
        true => Alignment::Left,
        false => Alignment::Right,
    })
}

/// Returns the width of the widest cell of each column.
fn widths(columns: &[Heading], rows: &[&FrameRow]) -> Vec<u16> {
    let width = |(index, column): (usize, &Heading)| {
        let cells = rows.iter().map(|row| row.cells[index].text.chars().count());
        let widest = cells.chain([column.name.len()]).max();
        u16::try_from(widest.unwrap_or(0)).unwrap_or(u16::MAX)
    };
    columns.iter().enumerate().map(width).collect()
}

/// Returns the indices of the columns that fit. Drops columns of figures first, from the right, and
/// then columns of words.
fn fitting(columns: &[Heading], widths: &[u16], width: u16) -> Vec<usize> {
    let mut fit: Vec<usize> = (0..columns.len()).collect();
    let all = columns.len() - 1;
    let needed = |index: &usize| match columns[*index].words && *index == all {
        true => LEAST_WORDS + SPACE,
        false => widths[*index] + SPACE,
    };
    while fit.len() > 1 && fit.iter().map(needed).sum::<u16>() > width {
        let last = fit
            .iter()
            .rposition(|index| *index > 0 && !columns[*index].words);
        fit.remove(last.unwrap_or(fit.len() - 1));
    }
    fit
}
