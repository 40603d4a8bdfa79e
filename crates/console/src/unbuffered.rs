//! An open file without a buffer, so that the progress of a slow reader is visible.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

/// Number of bytes that a pipe takes in one write if it is ready (PIPE_BUF of pipe(7)).
const AT_ONCE: usize = 4096;

/// Writer to stdout or stderr, without a buffer.
#[derive(Debug)]
pub struct UnbufferedOutput<F>(pub F);

impl<F: AsFd> Write for UnbufferedOutput<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, &bytes[..bytes.len().min(AT_ONCE)]) {
                // Another process has set O_NONBLOCK on the same open file.
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
