//! Results that are printed during the run.

use std::io::{self, Write};

use anyhow::{Context, Result};
use vmnoise_console::write_behind::WriteBehind;
use vmnoise_console::{interrupt, say, stdout};
use vmnoise_events::FinishReason;

use super::screen;

/// Stdout, until its reader closes it. A live run never waits for a slow reader; replaying a
/// recording does.
#[derive(Debug, Default)]
pub struct Stream {
    /// Writer of stdout; `None` until the run prints something.
    out: Option<WriteBehind>,
    lost_lines: u64,
    gone: bool,
}

impl Stream {
    /// Prints the text as soon as the reader takes it.
    pub fn print(&mut self, text: &str) {
        if !self.is_gone() {
            self.gone = self.write(text).is_err();
        }
    }

    /// Draws the text in place of the terminal's previous content. Skips it while the terminal has
    /// not taken the last drawing, since the next drawing replaces it anyway.
    pub fn redraw(&mut self, text: &str) {
        if self.out.as_ref().is_none_or(WriteBehind::is_idle) {
            self.print(&screen::redrawn(text));
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        // While a recording is replayed, no events have to be drained, so waiting is harmless.
        if !interrupt::is_caught() {
            return stdout::write_all(text.as_bytes());
        }
        let out = match &mut self.out {
            Some(out) => out,
            // Created only now, so that its thread runs on the CPUs to which this thread was moved.
            none => none.insert(stdout::behind()?),
        };
        if out.has_room() {
            return out.write_all(text.as_bytes());
        }
        self.lost_lines += text.lines().count() as u64;
        Ok(())
    }

    /// Waits until the reader has taken everything; reports lost lines on stderr.
    ///
    /// # Errors
    /// As [`stdout::end`].
    pub fn end(&mut self) -> Result<()> {
        let written = self.out.take().map_or(Ok(()), stdout::end);
        if self.lost_lines > 0 {
            say::say(format_args!(
                "{} lines are missing on stdout: its reader was too slow",
                self.lost_lines
            ));
        }
        written.context(super::CANNOT_WRITE)
    }

    /// Returns whether printing has failed. Writing the final result reports the reason.
    fn is_gone(&self) -> bool {
        self.gone || self.out.as_ref().is_some_and(WriteBehind::is_refused)
    }

    /// Returns why the run may end: the reader has closed stdout, or cannot see it any more.
    pub fn ends(&self) -> Option<FinishReason> {
        self.is_gone().then_some(FinishReason::Interrupt)
    }
}
