//! The progress line. It is ASCII without colour, so that it looks the same in every terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use super::term_caps::can_draw_over;
use crate::{say, stderr};

/// Time before the first drawing; a shorter job shows no line.
const SILENCE: Duration = Duration::from_millis(500);
/// Time between two drawings.
const INTERVAL: Duration = Duration::from_millis(100);

/// Least width of a terminal for which a bar is drawn.
const COLUMNS: u16 = 60;
/// Columns of the bar.
const BAR: usize = 24;
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];
/// Escape sequence that returns to the start of the line and erases the line.
const CLEAR: &str = "\r\x1b[K";

/// A line on stderr that is redrawn in place, and cleared on drop.
#[derive(Debug)]
pub struct ProgressLine {
    /// Earliest time of the next drawing.
    next: Instant,
    drawings: usize,
    is_drawn: bool,
}

impl ProgressLine {
    /// Returns the line of a job that begins, if stderr can show one.
    pub fn begin() -> Option<ProgressLine> {
        let seen = std::io::stderr().is_terminal() && can_draw_over();
        seen.then(|| ProgressLine {
            next: Instant::now() + SILENCE,
            drawings: 0,
            is_drawn: false,
        })
    }

    /// Returns whether it is time to draw.
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Draws the progress: a bar, if the total is known, and a text. Skips the drawing if the
    /// terminal has not taken the last drawing yet.
    pub fn draw(&mut self, done: u64, total: Option<u64>, words: &str) {
        self.next = Instant::now() + INTERVAL;
        // A background job must not draw on the terminal.
        let is_others = tcgetpgrp(std::io::stderr()).is_ok_and(|group| group != getpgrp());
        if is_others || !stderr::is_idle() {
            return;
        }
        let size = tcgetwinsize(std::io::stderr());
        let columns = size.ok().map(|size| size.ws_col).filter(|some| *some > 0);
        let columns = columns.unwrap_or(COLUMNS);
        let mut text = match total {
            Some(total) => known(done, total, columns),
            None => format!("vmnoise: {} ", SPINNER[self.drawings % SPINNER.len()]),
        };
        text += words;
        // Some terminals begin a new line after the last column.
        text.truncate(usize::from(columns) - 1);
        stderr::draw(&format!("{CLEAR}{text}"));
        self.drawings += 1;
        self.is_drawn = true;
    }

    /// Prints a message above the line.
    pub fn say(&mut self, message: &str) {
        self.clear();
        say::say(message);
        self.next = Instant::now();
    }

    /// Clears the line until the next drawing.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            stderr::draw(CLEAR);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns the bar and the percentage that come before the text. The total is known.
fn known(done: u64, total: u64, columns: u16) -> String {
    let part = if total == 0 {
        1.0
    } else {
        (done as f64 / total as f64).min(1.0)
    };
    let percent = (part * 100.0) as u64;
    if columns < COLUMNS {
        return format!("vmnoise: {percent} %  ");
    }
    let filled = "#".repeat((part * BAR as f64) as usize);
    let head = if filled.len() < BAR { ">" } else { "" };
    let bar = format!("{filled}{head}");
    format!("vmnoise: [{bar:-<BAR$}] {percent:>3} %  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_a_bar_where_there_is_room() {
        let bar = |done| known(done, 200, 80);
        assert_eq!(bar(0), "vmnoise: [>-----------------------]   0 %  ");
        assert_eq!(bar(101), "vmnoise: [############>-----------]  50 %  ");
        assert_eq!(bar(200), "vmnoise: [########################] 100 %  ");
        assert_eq!(bar(300), bar(200), "longer than planned");
        assert_eq!(known(0, 0, 80), bar(200), "nothing to do");
        assert_eq!(known(101, 200, 40), "vmnoise: 50 %  ");
    }
}
