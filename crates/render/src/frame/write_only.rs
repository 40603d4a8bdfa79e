//! Terminal backend that only writes, and never asks the terminal for its cursor's position. Output
//! waits in a buffer until a flush.
//!
//! After each resize, the library clears the screen, asks for the position, and waits up to two
//! seconds for the answer. During this wait, no code drains the ring buffers, and keys get lost.
//! Some terminals never answer. The frame hides the cursor, so the position does not matter.

use std::io::{BufWriter, Result, Write};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

/// Size of the buffer in bytes. It holds a full redraw of a large terminal in all colours.
const PICTURE: usize = 256 << 10;

/// Backend that writes to the terminal through a buffer.
#[derive(Debug)]
pub struct WriteOnly<W: Write>(CrosstermBackend<BufWriter<W>>);

impl<W: Write> WriteOnly<W> {
    /// Creates a backend that writes to `out`.
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
