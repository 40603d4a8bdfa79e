//! A slow disk for tests.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A file on a disk that hangs while a test holds the lock.
#[derive(Debug, Clone, Default)]
pub struct Hanging(pub Arc<Mutex<Vec<u8>>>);

impl Write for Hanging {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        disk.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
