//! Curve of the chosen row, with its latest point on the right.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{RenderDirection, Sparkline};

use super::Setting;
use crate::frame::model::Model;
use crate::frame::snapshot::{FrameRow, Heading};

/// Steps per unit of the curve, because the sparkline takes only whole numbers.
const STEPS: f64 = 1000.0;

/// Draws the curve of the chosen row.
pub fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, setting: &Setting) {
    let Some(row) = model.chosen_row() else {
        return;
    };
    let curve = model.curves.get(&row.key);
    let points = curve.into_iter().flatten().rev().take(area.width.into());
    let levels: Vec<f64> = points.copied().collect();
    let name = setting.term.text(&name(row, &setting.words.row_columns));
    let mut heading = format!(
        "{} {name}: {}",
        setting.words.row_columns[0].name, setting.words.curve
    );
    if let Some(most) = levels.iter().copied().reduce(f64::max) {
        heading += &format!(", at most {most:.3}");
    }
    let [top, bars] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Line::styled(heading, setting.term.heading()), top);
    let levels = levels.iter().map(|level| (level * STEPS) as u64);
    let sparkline = Sparkline::default()
        .data(levels)
        .bar_set(setting.term.bars())
        .direction(RenderDirection::RightToLeft)
        .style(setting.term.curve());
    frame.render_widget(sparkline, bars);
}

/// Returns the name of a row: its first cell, and its second cell if that column holds words.
fn name(row: &FrameRow, columns: &[Heading]) -> String {
    let second = columns.get(1).filter(|column| column.words);
    let words = second.map(|_| row.cells[1].text.as_str());
    let words: Vec<&str> = [row.cells[0].text.as_str()]
        .into_iter()
        .chain(words)
        .collect();
    words.join(" ")
}
