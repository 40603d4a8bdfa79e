//! Progress of a job, in bytes of recordings. Each pass over a recording counts its bytes once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vmnoise_console::units::rough;

/// Number of bytes of a job: read so far, and in total.
#[derive(Debug, Default)]
pub struct Gauge {
    read: u64,
    /// Bytes of all passes, begun or expected.
    total: u64,
    /// Number of passes that have not begun, by recording.
    expected: BTreeMap<PathBuf, u64>,
    /// Number of open recordings of unknown length.
    endless: usize,
}

impl Gauge {
    /// Announces passes over a recording of `len` bytes.
    pub fn expect(&mut self, path: &Path, len: u64, passes: u64) {
        *self.expected.entry(path.to_owned()).or_default() += passes;
        self.total += len * passes;
    }

    /// Begins a pass; `len` is `None` for a pipe.
    pub fn begin(&mut self, path: &Path, len: Option<u64>) {
        let Some(len) = len else {
            self.endless += 1;
            return;
        };
        match self.expected.get_mut(path).filter(|passes| **passes > 0) {
            Some(passes) => *passes -= 1,
            None => self.total += len,
        }
    }

    /// Adds bytes that a pass read.
    pub fn advance(&mut self, bytes: u64) {
        self.read += bytes;
    }

    /// Ends a pass that left `unread` bytes of its recording; `None` for a pipe.
    pub fn end(&mut self, unread: Option<u64>) {
        match unread {
            Some(unread) => self.total = self.total.saturating_sub(unread),
            None => self.endless -= 1,
        }
    }

    /// Returns the bytes read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Returns the bytes in total, or `None` while a recording of unknown length is open. A
    /// recording may grow while it is read.
    pub fn total(&self) -> Option<u64> {
        (self.endless == 0).then_some(self.total.max(self.read))
    }

    /// Returns the progress as text. `elapsed` is the time since the start of the job.
    pub fn words(&self, elapsed: Duration) -> String {
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let read = megabytes(self.read);
        let Some(total) = self.total() else {
            return format!("{read} MB read");
        };
        let mut words = format!("{read} of {} MB read", megabytes(total));
        if self.read > 0 {
            let to_read = (total - self.read) as f64 / self.read as f64;
            words += &format!(", {} left", rough(elapsed.mul_f64(to_read)));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn passes_that_were_announced_are_in_the_total_from_the_start() {
        let [guest, host] = ["guest", "host"].map(Path::new);
        let mut gauge = Gauge::default();
        gauge.expect(guest, 3_000_000, 2);
        gauge.expect(host, 1_000_000, 2);
        gauge.begin(guest, Some(3_000_000));
        gauge.begin(host, Some(1_000_000));
        gauge.advance(4_000_000);
        assert_eq!((gauge.read(), gauge.total()), (4_000_000, Some(8_000_000)));
        assert_eq!(gauge.words(SECOND), "4.0 of 8.0 MB read, 1 s left");
        gauge.end(Some(0));
        gauge.end(Some(0));
        gauge.begin(guest, Some(3_000_000));
        assert_eq!(gauge.total(), Some(8_000_000));
    }

    #[test]
    fn what_is_not_read_to_its_end_is_not_waited_for() {
        let path = Path::new("run");
        let mut gauge = Gauge::default();
        // This pass reads only the facts.
        gauge.begin(path, Some(500));
        gauge.advance(100);
        gauge.end(Some(400));
        assert_eq!((gauge.read(), gauge.total()), (100, Some(100)));
        gauge.begin(path, Some(500));
        assert_eq!(gauge.total(), Some(600));
    }

    #[test]
    fn of_a_pipe_nobody_says_how_much_is_left() {
        let mut gauge = Gauge::default();
        gauge.begin(Path::new("/dev/stdin"), None);
        gauge.advance(2_500_000);
        assert_eq!(gauge.total(), None);
        assert_eq!(gauge.words(SECOND), "2.5 MB read");
        gauge.end(None);
        assert_eq!(gauge.total(), Some(2_500_000));
    }

    #[test]
    fn a_recording_that_grows_is_never_more_than_read() {
        let mut gauge = Gauge::default();
        gauge.begin(Path::new("run"), Some(10));
        gauge.advance(12);
        assert_eq!(gauge.total(), Some(12));
    }
}
