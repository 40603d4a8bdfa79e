//! Results that are printed while the run goes on.

use std::time::Duration;

use anyhow::Result;

use super::stdout;
use crate::say;

/// What waits for a slow reader; what comes beyond is lost.
const MOST_BYTES: usize = 4 << 20;

/// Stdout, until its reader has seen enough. It never waits for one that is slow.
#[derive(Debug, Default)]
pub struct Stream {
    waiting: Vec<u8>,
    /// How much of it is written.
    written: usize,
    lost_lines: u64,
    gone: bool,
}

impl Stream {
    /// Prints as soon as the reader takes it.
    pub fn print(&mut self, text: &str) {
        if self.waiting.len() - self.written + text.len() > MOST_BYTES {
            self.lost_lines += text.lines().count() as u64;
        } else {
            self.waiting.extend_from_slice(text.as_bytes());
        }
        self.turn();
    }

    /// Hands on what the reader takes by now.
    pub fn turn(&mut self) {
        while !self.gone && self.written < self.waiting.len() {
            match stdout::write_some(&self.waiting[self.written..], Duration::ZERO) {
                Ok(0) => break,
                Ok(written) => self.written += written,
                Err(_) => self.gone = true,
            }
        }
        if self.gone || self.written == self.waiting.len() {
            self.waiting.clear();
            self.written = 0;
        } else if self.written > MOST_BYTES {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
    }

    /// Prints what waits, and waits for its reader; what was lost is told on stderr.
    ///
    /// # Errors
    /// As of [`stdout::write_all`].
    pub fn end(&mut self) -> Result<()> {
        let written = match self.gone {
            true => Ok(()),
            false => super::write(&self.waiting[self.written..]),
        };
        (self.waiting, self.written) = (Vec::new(), 0);
        if self.lost_lines > 0 {
            say::say(format_args!(
                "{} lines are missing on stdout: it took less than was told",
                self.lost_lines
            ));
        }
        written
    }

    /// Whether printing has failed. The result, written last, tells why.
    pub fn is_gone(&self) -> bool {
        self.gone
    }
}
