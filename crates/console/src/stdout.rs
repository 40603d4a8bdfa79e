//! Stdout, which may block: at a waiting pager, a full pipe, a terminal after Ctrl-S, or a file on
//! a disk that hangs. The thread that drains events never waits for stdout. Ctrl-C ends a program
//! that waits for stdout.

use std::io::{self, ErrorKind, Write};

use crate::interrupt;
use crate::stderr;
use crate::unbuffered::UnbufferedOutput;
use crate::write_behind::{Room, Unwritten, WriteBehind};

/// Limits for the bytes that wait for a slow reader.
const ROOM: Room = Room {
    most: 4 << 20,
    // No limit, because a result is useful only as a whole.
    all: usize::MAX,
};

/// Returns a writer to stdout that uses a separate thread.
///
/// # Errors
/// If the kernel refuses another thread.
pub fn behind() -> io::Result<WriteBehind> {
    WriteBehind::new(UnbufferedOutput(io::stdout()), ROOM)
}

/// Waits until the reader has taken everything.
///
/// # Errors
/// The kernel's error, or [`ErrorKind::TimedOut`] if the reader takes nothing and Ctrl-C was
/// pressed.
pub fn end(out: WriteBehind) -> io::Result<()> {
    out.end(|_| {}).map_err(|unwritten| match unwritten {
        Unwritten::Refused(error) => error,
        given_up @ Unwritten::GivenUp { .. } => io::Error::new(ErrorKind::TimedOut, given_up),
    })
}

/// Writes all bytes, after earlier messages on stderr, and waits for the reader.
///
/// # Errors
/// The same errors as [`end`].
pub fn write_all(bytes: &[u8]) -> io::Result<()> {
    // If Ctrl-C is not caught, it ends the process, and a direct write is enough.
    if !interrupt::is_caught() {
        return UnbufferedOutput(io::stdout()).write_all(bytes);
    }
    stderr::wait_before_result();
    let mut out = behind()?;
    out.write_all(bytes)?;
    end(out)
}
