//! Terminal that is only written to and never asked for its cursor's position. Output is buffered
//! until it is flushed.
//!
//! The library asks for the position each time it clears the screen, which it does after each
//! resize, and waits up to two seconds for the answer. Meanwhile nothing drains the rings, and keys
//! get lost. Some terminals never answer. The frame hides the cursor, so its position does not
//! matter.

use std::io::{BufWriter, Result, Write};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

/// Buffer size that holds a full redraw of a large terminal in all colours, in bytes.
const PICTURE: usize = 256 << 10;

/// Terminal behind the buffer.
#[derive(Debug)]
pub struct WriteOnly<W: Write>(CrosstermBackend<BufWriter<W>>);

impl<W: Write> WriteOnly<W> {
    /// Creates a terminal that writes to `out`.
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
