//! Stdout whose reader may stop reading: a pager that waits, a pipe that nobody empties, a
//! terminal after Ctrl-S. Nobody who drains events waits for it, and Ctrl-C ends a program
//! that does.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::interrupt;

/// As much as a pipe that is ready takes at once (PIPE_BUF of pipe(7)).
const AT_ONCE: usize = 4096;
/// How often a reader that takes nothing is asked again.
const LOOK: Duration = Duration::from_millis(50);
/// How long it is waited for after Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes all of it.
///
/// # Errors
/// What the kernel says, or [`ErrorKind::TimedOut`] where the reader takes nothing and Ctrl-C
/// asked for the end.
pub fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    let mut last = Instant::now();
    while !bytes.is_empty() {
        match write_some(bytes, LOOK)? {
            0 if interrupt::was_asked() && last.elapsed() > PATIENCE => {
                let why = "it takes nothing, and Ctrl-C asked for the end";
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            0 => {}
            written => {
                bytes = &bytes[written..];
                last = Instant::now();
            }
        }
    }
    Ok(())
}

/// Writes as much as its reader takes without being waited for longer than that; how much it
/// was.
///
/// # Errors
/// What the kernel says.
pub fn write_some(bytes: &[u8], patience: Duration) -> io::Result<usize> {
    let stdout = io::stdout();
    let out = stdout.as_fd();
    let mut ready = [PollFd::new(&out, PollFlags::OUT)];
    let patience = Timespec {
        tv_sec: patience.as_secs().cast_signed(),
        tv_nsec: patience.subsec_nanos().into(),
    };
    match poll(&mut ready, Some(&patience)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(0),
        ready => ready?,
    };
    match rustix::io::write(out, &bytes[..bytes.len().min(AT_ONCE)]) {
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(0),
        written => Ok(written?),
    }
}
