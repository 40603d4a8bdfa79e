//! Drawing of a model: lists, curve and budget, one below the other.

mod budget;
mod curve;
mod help;
mod lists;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Wrap};

use super::model::{Model, Pane};
use super::snapshot::FrameWords;
use super::term_style::TermStyle;

/// Least width and height of the screen.
const LEAST: (u16, u16) = (60, 16);
/// Lines of the curve, with its heading.
const CURVE: u16 = 4;

/// Settings that are the same for all drawings of a frame.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Labels of the command.
    pub words: FrameWords,
    /// Planned length of the run; `None` without a limit.
    pub length: Option<Duration>,
    /// Abilities of the terminal.
    pub term: TermStyle,
}

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, model: &Model, setting: &Setting) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return too_small(frame, area);
    }
    let lines = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [bar, headline, body, footer] = Layout::vertical(lines).areas(area);
    frame.render_widget(title(model, setting, bar.width), bar);
    let words = setting.term.text(&model.shown().headline);
    frame.render_widget(Line::raw(words), headline);
    if model.help {
        help::draw(frame, body, setting.term);
    } else if let Some(opened) = &model.opened {
        budget::draw_opened(frame, body, opened, setting.term);
    } else {
        draw_lists(frame, body, model, setting);
    }
    frame.render_widget(foot(model, setting.term), footer);
}

fn draw_lists(frame: &mut Frame<'_>, body: Rect, model: &Model, setting: &Setting) {
    let rows = u16::try_from(model.shown().rows.len()).unwrap_or(u16::MAX);
    // Room for the heading, the titles of columns and all lines, but at most two fifths of the
    // body.
    let upper = rows.saturating_add(2).clamp(4, body.height * 2 / 5);
    let heights = [
        Constraint::Length(upper),
        Constraint::Length(CURVE),
        Constraint::Min(0),
    ];
    let [upper, curve, lower] = Layout::vertical(heights).areas(body);
    lists::draw(frame, upper, model, Pane::Rows, setting);
    curve::draw(frame, curve, model, setting);
    // The budget gets more room, because the list shows only the beginning of the same text.
    let parts = [Constraint::Fill(3), Constraint::Fill(4)];
    let [left, right] = Layout::horizontal(parts).spacing(2).areas(lower);
    lists::draw(frame, left, model, Pane::Gaps, setting);
    if let Some(gap) = model.chosen_gap() {
        budget::draw(frame, right, gap, 0, setting.term);
    }
}

fn title(model: &Model, setting: &Setting, width: u16) -> Line<'static> {
    let elapsed = clock(model.shown().elapsed);
    let of = setting
        .length
        .map(|length| format!(" of {}", clock(length)));
    let frozen = if model.is_frozen() { "  [frozen]" } else { "" };
    let text = format!(
        " vmnoise {}  {elapsed}{}{frozen}",
        setting.words.command,
        of.unwrap_or_default()
    );
    let width = usize::from(width);
    Line::styled(format!("{text:<width$}"), setting.term.bar_line())
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours}:{minutes:02}:{:02}", seconds % 60)
}

fn foot(model: &Model, term: TermStyle) -> Line<'static> {
    if model.typing {
        let list = match model.pane {
            Pane::Rows => &model.rows,
            Pane::Gaps => &model.gaps,
        };
        return Line::styled(term.text(&format!("/{}_", list.filter)), term.notice());
    }
    if let Some(notice) = &model.notice {
        return Line::styled(term.text(notice), term.notice());
    }
    let (end, keys) = (
        "q end  ? keys  ",
        "space freeze  Tab list  / filter  s sort  Enter budget",
    );
    let keys = match model.help || model.opened.is_some() {
        true => "Esc close",
        false => keys,
    };
    Line::raw(format!("{end}{keys}"))
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let (columns, lines) = LEAST;
    let text = format!(
        "needs {columns}x{lines}, has {}x{}; q ends",
        area.width, area.height
    );
    frame.render_widget(
        Paragraph::new(Text::raw(text)).wrap(Wrap { trim: true }),
        area,
    );
}
