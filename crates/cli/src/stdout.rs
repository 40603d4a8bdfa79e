//! Stdout whose reader may stop reading: a pager that waits, a pipe that nobody empties, a
//! terminal after Ctrl-S, a file on a disk that hangs. Who drains events waits for none of them,
//! and Ctrl-C ends a program that does.

use std::io::{self, ErrorKind, Write};

use crate::interrupt;
use crate::stderr;
use crate::unbuffered::Unbuffered;
use crate::write_behind::{Room, Unwritten, WriteBehind};

/// What waits for a slow reader; what comes beyond is lost.
const ROOM: Room = Room {
    most: 4 << 20,
    // A result is needed whole.
    all: usize::MAX,
};

/// Stdout of a run, written by a thread of its own.
///
/// # Errors
/// If the kernel refuses another thread.
pub fn behind() -> io::Result<WriteBehind> {
    WriteBehind::new(Unbuffered(io::stdout()), ROOM)
}

/// Waits until the reader has all of it.
///
/// # Errors
/// What the kernel says, or [`ErrorKind::TimedOut`] where the reader takes nothing and Ctrl-C
/// asked for the end.
pub fn end(out: WriteBehind) -> io::Result<()> {
    out.end(|_| {}).map_err(|unwritten| match unwritten {
        Unwritten::Refused(error) => error,
        given_up @ Unwritten::GivenUp { .. } => io::Error::new(ErrorKind::TimedOut, given_up),
    })
}

/// Writes all of it behind what was said, and waits for the reader.
///
/// # Errors
/// As [`end`].
pub fn write_all(bytes: &[u8]) -> io::Result<()> {
    // Where nobody catches Ctrl-C it ends the process anyway.
    if !interrupt::is_caught() {
        return Unbuffered(io::stdout()).write_all(bytes);
    }
    stderr::wait_before_result();
    let mut out = behind()?;
    out.write_all(bytes)?;
    end(out)
}
