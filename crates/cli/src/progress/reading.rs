//! Recordings that are being read, and the line that says how far.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use vmnoise_recording::{ReadError, Reader};

use super::gauge::Gauge;
use super::line::Line;

thread_local! {
    /// What this process reads, one after the other or in turns. There is one stderr.
    static JOB: RefCell<Job> = RefCell::default();
}

#[derive(Default)]
struct Job {
    gauge: Gauge,
    begun: Option<Instant>,
    line: Option<Line>,
    /// Recordings that are open. Where there is none, others write on the terminal.
    open: usize,
    /// Whether there is to be no line.
    none: bool,
}

/// A recording, as the bytes of its file.
#[derive(Debug)]
pub struct Input {
    file: File,
    len: Option<u64>,
    read: u64,
}

/// Opens a recording for one pass and reads its header. A line says how far the reading is,
/// as long as any reader is there.
///
/// # Errors
/// As [`Reader::open`].
pub fn open(path: &Path) -> Result<Reader<Input>, ReadError> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.map_err(|error| ReadError::Open {
        path: PathBuf::from(path),
        error,
    })?;
    let len = metadata.is_file().then_some(metadata.len());
    with(|job| job.begin(path, len));
    Reader::new(Input { file, len, read: 0 })
}

/// Says how often these will be read from here on, for a total that holds from the start.
pub fn expect(path: &Path, passes: u64) {
    if let Ok(metadata) = std::fs::metadata(path) {
        with(|job| job.gauge.expect(path, metadata.len(), passes));
    }
}

/// From here on what is read is printed while it is read: no line may come between.
pub fn none() {
    with(|job| job.none = true);
}

fn with(change: impl FnOnce(&mut Job)) {
    // A reader that outlives its thread has nobody to tell.
    let _ = JOB.try_with(|job| change(&mut job.borrow_mut()));
}

impl Job {
    fn begin(&mut self, path: &Path, len: Option<u64>) {
        self.gauge.begin(path, len);
        self.open += 1;
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            self.line = Line::begin();
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.gauge.advance(bytes);
        let Some((line, begun)) = self.line.as_mut().zip(self.begun) else {
            return;
        };
        if !self.none && line.is_due() {
            let words = self.gauge.words(begun.elapsed());
            line.draw(self.gauge.read(), self.gauge.total(), &words);
        }
    }

    fn end(&mut self, unread: Option<u64>) {
        self.gauge.end(unread);
        self.open -= 1;
        if let Some(line) = self.line.as_mut().filter(|_| self.open == 0) {
            line.clear();
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read += count as u64;
        with(|job| job.advance(count as u64));
        Ok(count)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        let unread = self.len.map(|len| len.saturating_sub(self.read));
        with(|job| job.end(unread));
    }
}
