//! The line itself. ASCII and without colour, so it is the same in every terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use super::term_caps::can_draw_over;
use crate::{say, stderr};

/// A job that is done by then shows none.
const SILENCE: Duration = Duration::from_millis(500);
/// Between two drawings.
const INTERVAL: Duration = Duration::from_millis(100);

/// With fewer columns there are words alone.
const COLUMNS: u16 = 60;
/// Of these the bar has so many.
const BAR: usize = 24;
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];
/// Back to its begin, and what was there is gone.
const CLEAR: &str = "\r\x1b[K";

/// A line on stderr that is drawn over, and cleared when this is dropped.
#[derive(Debug)]
pub struct Line {
    /// Not before.
    next: Instant,
    drawings: usize,
    is_drawn: bool,
}

impl Line {
    /// The line of a job that begins, where stderr can show one.
    pub fn begin() -> Option<Line> {
        let seen = std::io::stderr().is_terminal() && can_draw_over();
        seen.then(|| Line {
            next: Instant::now() + SILENCE,
            drawings: 0,
            is_drawn: false,
        })
    }

    /// Whether it is time to draw.
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Draws how far it is: so much of so much, if that is known, and in words. A terminal that has
    /// not taken the last drawing yet is not given another.
    pub fn draw(&mut self, done: u64, total: Option<u64>, words: &str) {
        self.next = Instant::now() + INTERVAL;
        // The terminal is others' while this is a background job.
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
        // In the last column some terminals begin another line.
        text.truncate(usize::from(columns) - 1);
        stderr::draw(&format!("{CLEAR}{text}"));
        self.drawings += 1;
        self.is_drawn = true;
    }

    /// Says something above it.
    pub fn say(&mut self, message: &str) {
        self.clear();
        say::say(message);
        self.next = Instant::now();
    }

    /// Clears it until it is drawn again.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            stderr::draw(CLEAR);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What is before the words, where it is known how much there is.
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
