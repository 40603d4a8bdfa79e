//! A file that is open already, without a buffer: each bit that a slow reader takes is seen.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

/// As much as a pipe that is ready takes at once (PIPE_BUF of pipe(7)).
const AT_ONCE: usize = 4096;

/// Stdout or stderr.
#[derive(Debug)]
pub struct Unbuffered<F>(pub F);

impl<F: AsFd> Write for Unbuffered<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, &bytes[..bytes.len().min(AT_ONCE)]) {
                // Whoever opened it set O_NONBLOCK.
                Err(rustix::io::Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
