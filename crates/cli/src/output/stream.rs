//! Results that are printed while the run goes on.

use std::io::{self, Write};

use anyhow::{Context, Result};

use super::screen;
use crate::interrupt;
use crate::say;
use crate::stdout;
use crate::write_behind::WriteBehind;

/// Stdout, until its reader has seen enough. A run never waits for one that is slow; a recording
/// that is read does.
#[derive(Debug, Default)]
pub struct Stream {
    /// Of a run that has printed something.
    out: Option<WriteBehind>,
    lost_lines: u64,
    gone: bool,
}

impl Stream {
    /// Prints as soon as the reader takes it.
    pub fn print(&mut self, text: &str) {
        if !self.is_gone() {
            self.gone = self.write(text).is_err();
        }
    }

    /// Draws in place of what the terminal showed before. One that has not taken the last
    /// drawing yet is not given another: the next drawing replaces it anyway.
    pub fn redraw(&mut self, text: &str) {
        if self.out.as_ref().is_none_or(WriteBehind::is_idle) {
            self.print(&screen::redrawn(text));
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        // A recording is read: nobody drains events, and nothing has to be left out.
        if !interrupt::is_caught() {
            return stdout::write_all(text.as_bytes());
        }
        let out = match &mut self.out {
            Some(out) => out,
            // Begun only now, so that its thread runs on the CPUs that this one was moved to.
            none => none.insert(stdout::behind()?),
        };
        if out.has_room() {
            return out.write_all(text.as_bytes());
        }
        self.lost_lines += text.lines().count() as u64;
        Ok(())
    }

    /// Waits for the reader of what waits; what was lost is reported on stderr.
    ///
    /// # Errors
    /// As of [`stdout::end`].
    pub fn end(&mut self) -> Result<()> {
        let written = self.out.take().map_or(Ok(()), stdout::end);
        if self.lost_lines > 0 {
            say::say(format_args!(
                "{} lines are missing on stdout: it took less than was told",
                self.lost_lines
            ));
        }
        written.context(super::CANNOT_WRITE)
    }

    /// Whether printing has failed. The result, written last, says why.
    pub fn is_gone(&self) -> bool {
        self.gone || self.out.as_ref().is_some_and(WriteBehind::is_refused)
    }
}
