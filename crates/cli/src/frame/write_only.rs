//! A terminal that is told what to show and never asked where its cursor is. What it is told waits
//! until it is flushed, and goes out as one.
//!
//! The library asks whenever it clears, which it does at each new size, and waits for the answer
//! up to two seconds: meanwhile nobody drains the rings, and keys get lost. Not every terminal
//! answers. The frame hides the cursor, so it does not matter where it is.

use std::io::{BufWriter, Result, Write};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

/// What a terminal of many columns and lines takes to be filled, in all colours.
const PICTURE: usize = 256 << 10;

/// The terminal behind this.
#[derive(Debug)]
pub struct WriteOnly<W: Write>(CrosstermBackend<BufWriter<W>>);

impl<W: Write> WriteOnly<W> {
    /// Tells it by this.
    pub fn new(out: W) -> WriteOnly<W> {
        WriteOnly(CrosstermBackend::new(BufWriter::with_capacity(
            PICTURE, out,
        )))
    }
}

impl<W: Write> Backend for WriteOnly<W> {
    type Error = std::io::Error;

    fn draw<'a, I>(&mut self, content: I) -> Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        self.0.draw(content)
    }

    fn hide_cursor(&mut self) -> Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> Result<Size> {
        self.0.size()
    }

    fn window_size(&mut self) -> Result<WindowSize> {
        self.0.window_size()
    }

    fn flush(&mut self) -> Result<()> {
        Write::flush(&mut self.0)
    }
}
