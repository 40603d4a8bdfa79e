//! Output to stdout during the run.

use std::io::{self, Write};

use anyhow::{Context, Result};
use vmnoise_console::write_behind::WriteBehind;
use vmnoise_console::{interrupt, say, stdout};
use vmnoise_events::FinishReason;

use super::screen;

/// Writer of stdout, until the reader closes stdout. A live run never waits for a slow reader, but
/// a replay of a recording does.
#[derive(Debug, Default)]
pub struct Stream {
    /// Writer of stdout; `None` until the run prints something.
    out: Option<WriteBehind>,
    lost_lines: u64,
    gone: bool,
}

impl Stream {
    /// Prints the text as soon as the reader takes it. A live run drops and counts the lines if too
    /// much text waits already.
    pub fn print(&mut self, text: &str) {
        if !self.is_gone() {
            self.gone = self.write(text).is_err();
        }
    }

    /// Draws the text over the terminal's previous content. Skips the text while the terminal has
    /// not taken all of the last drawing, because the next drawing replaces it anyway.
    pub fn redraw(&mut self, text: &str) {
        if self.out.as_ref().is_none_or(WriteBehind::is_idle) {
            self.print(&screen::redrawn(text));
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        // A replay has no events to drain, so it may wait for the reader.
        if !interrupt::is_caught() {
            return stdout::write_all(text.as_bytes());
        }
        let out = match &mut self.out {
            Some(out) => out,
            // Created only now, because its thread inherits the CPUs to which this thread was
            // moved.
            none => none.insert(stdout::behind()?),
        };
        if out.has_room() {
            return out.write_all(text.as_bytes());
        }
        self.lost_lines += text.lines().count() as u64;
        Ok(())
    }

    /// Waits until the reader has taken all output. Reports the number of lost lines on stderr.
    ///
    /// # Errors
    /// The same errors as [`stdout::end`].
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

    /// Returns whether printing has failed. The attempt to write the final result reports the
    /// reason.
    fn is_gone(&self) -> bool {
        self.gone || self.out.as_ref().is_some_and(WriteBehind::is_refused)
    }

    /// Returns why the run may end: the reader has closed stdout, or cannot see it any more.
    pub fn ends(&self) -> Option<FinishReason> {
        self.is_gone().then_some(FinishReason::Interrupt)
    }
}
