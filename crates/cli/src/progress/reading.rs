//! Recordings that are being read, and the line that shows the progress.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use vmnoise_console::progress::ProgressLine;
use vmnoise_recording::{ReadError, RecordingReader};

use super::gauge::Gauge;

thread_local! {
    /// All recordings that this thread reads. They share one line, because there is only one
    /// stderr.
    static JOB: RefCell<Job> = RefCell::default();
}

#[derive(Default)]
struct Job {
    gauge: Gauge,
    begun: Option<Instant>,
    line: Option<ProgressLine>,
    /// Number of open recordings. While no recording is open, other code may write on the terminal.
    open: usize,
    /// Whether the line is switched off.
    none: bool,
}

/// The file of a recording, whose reads count as progress.
#[derive(Debug)]
pub struct RecordingInput {
    file: File,
    len: Option<u64>,
    read: u64,
}

/// Opens a recording for one pass and reads its header. A line shows the progress while a reader
/// exists.
///
/// # Errors
/// [`ReadError::Open`] if the file cannot be opened, or an error of [`RecordingReader::new`].
pub fn open(path: &Path) -> Result<RecordingReader<RecordingInput>, ReadError> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.map_err(|error| ReadError::Open {
        path: PathBuf::from(path),
        error,
    })?;
    let len = metadata.is_file().then_some(metadata.len());
    with(|job| job.begin(path, len));
    RecordingReader::new(RecordingInput { file, len, read: 0 })
}

/// Announces the passes over a recording, so that the total is right from the start.
pub fn expect(path: &Path, passes: u64) {
    if let Ok(metadata) = std::fs::metadata(path) {
        with(|job| job.gauge.expect(path, metadata.len(), passes));
    }
}

/// Switches the line off, for commands that print while they read.
pub fn none() {
    with(|job| job.none = true);
}

fn with(change: impl FnOnce(&mut Job)) {
    // While the thread ends, the job may be gone. Then there is no line to update.
    let _ = JOB.try_with(|job| change(&mut job.borrow_mut()));
}

impl Job {
    fn begin(&mut self, path: &Path, len: Option<u64>) {
        self.gauge.begin(path, len);
        self.open += 1;
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            self.line = ProgressLine::begin();
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

impl Read for RecordingInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read += count as u64;
        with(|job| job.advance(count as u64));
        Ok(count)
    }
}

impl Drop for RecordingInput {
    fn drop(&mut self) {
        let unread = self.len.map(|len| len.saturating_sub(self.read));
        with(|job| job.end(unread));
    }
}
