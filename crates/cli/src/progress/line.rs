//! The line itself. ASCII and without colour, so it is the same in every terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use super::term_caps::can_draw_over;
use crate::say;

/// A job that is done by then shows none.
const SILENCE: Duration = Duration::from_millis(500);
/// Between two drawings.
const INTERVAL: Duration = Duration::from_millis(100);
/// For the library, which has its own idea of what is too often.
const HZ: u8 = 20;

/// With fewer columns there are words alone.
const COLUMNS: u16 = 60;
const WORDS: &str = "vmnoise: {percent} %  {wide_msg}";
const KNOWN: &str = "vmnoise: [{bar:24}] {percent:>3} %  {wide_msg}";
const UNKNOWN: &str = "vmnoise: {spinner} {wide_msg}";

/// A line on stderr that is drawn over, and cleared when this is dropped.
#[derive(Debug)]
pub struct Line {
    bar: ProgressBar,
    /// Not before.
    next: Instant,
}

impl Line {
    /// The line of a job that begins, where stderr can show one.
    pub fn begin() -> Option<Line> {
        let seen = std::io::stderr().is_terminal() && can_draw_over();
        seen.then(|| Line {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
            next: Instant::now() + SILENCE,
        })
    }

    /// Whether it is time to draw.
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Draws how far it is: so much of so much, if that is known, and in words.
    pub fn draw(&mut self, done: u64, total: Option<u64>, words: String) {
        self.next = Instant::now() + INTERVAL;
        // The terminal is others' while this is a background job.
        if tcgetpgrp(std::io::stderr()).is_ok_and(|group| group != getpgrp()) {
            return;
        }
        if self.bar.is_hidden() {
            let target = ProgressDrawTarget::stderr_with_hz(HZ);
            self.bar = ProgressBar::with_draw_target(total, target);
        }
        let columns = tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col);
        let template = match total {
            Some(_) if columns < COLUMNS => WORDS,
            Some(_) => KNOWN,
            None => UNKNOWN,
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar
                .set_style(style.progress_chars("#>-").tick_chars("|/-\\ "));
        }
        if let Some(total) = total {
            self.bar.set_length(total);
            self.bar.set_position(done);
        }
        self.bar.set_message(words);
        self.bar.tick();
    }

    /// Says something above it.
    pub fn say(&self, message: &str) {
        self.bar.suspend(|| say::say(message));
    }

    /// Clears it until it is drawn again.
    pub fn clear(&mut self) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}
