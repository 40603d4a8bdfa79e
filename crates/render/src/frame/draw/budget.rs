//! Budget of a gap: its parts, which add up to the length in the title.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};
use vmnoise_events::human;

use crate::frame::model::OpenBudget;
use crate::frame::snapshot::{FrameGap, FramePart};
use crate::frame::term_style::TermStyle;

/// Draws the parts from index `above` on. If there are too many, the last line sums up the rest.
pub fn draw(frame: &mut Frame<'_>, area: Rect, gap: &FrameGap, above: usize, term: TermStyle) {
    let heading = format!("Budget of {}", term.text(&gap.title));
    let mut lines = vec![Line::styled(heading, term.heading())];
    let dur_ns = gap.parts.iter().map(|part| part.ns).sum();
    let parts = &gap.parts[above.min(gap.parts.len())..];
    let room = usize::from(area.height.saturating_sub(1));
    let (shown, below) = match parts.len() > room {
        true => parts.split_at(room.saturating_sub(1)),
        false => parts.split_at(parts.len()),
    };
    lines.extend(
        shown
            .iter()
            .map(|part| Line::raw(term.text(&line(part, dur_ns)))),
    );
    if !below.is_empty() {
        let ns = below.iter().map(|part| part.ns).sum();
        lines.push(Line::raw(format!(
            "{:>11}  in {} more",
            human(ns),
            below.len()
        )));
    }
    frame.render_widget(Text::from(lines), area);
}

/// Draws the opened budget over the whole body of the screen.
pub fn draw_opened(frame: &mut Frame<'_>, area: Rect, opened: &OpenBudget, term: TermStyle) {
    draw(frame, area, &opened.gap, opened.above, term);
}

fn line(part: &FramePart, dur_ns: u64) -> String {
    let percent = part.ns as f64 * 100.0 / dur_ns.max(1) as f64;
    format!("{:>11} {percent:>3.0}%  {}", human(part.ns), part.words)
}
