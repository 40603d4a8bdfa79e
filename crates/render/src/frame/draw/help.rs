//! Screen that explains the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};

use crate::frame::keys::HELP;
use crate::frame::term_style::TermStyle;

/// Draws the list of keys.
pub fn draw(frame: &mut Frame<'_>, area: Rect, term: TermStyle) {
    let mut lines = vec![Line::styled("Keys", term.heading())];
    lines.extend(HELP.map(|(key, what)| Line::raw(format!("{key:>26}  {what}"))));
    frame.render_widget(Text::from(lines), area);
}
