//! Run delay of a polling thread: the time that the thread waited for its CPU, as the scheduler
//! counts it. Reading this count needs no rights. So even a run without BPF can measure the time of
//! other threads.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum length of the file: three numbers of up to 20 digits.
const LINE_BYTES: usize = 64;

/// The scheduler's count of one thread's run delay, if it is known, and its last value.
#[derive(Debug)]
pub struct RunDelay {
    file: Option<File>,
    seen_ns: u64,
}

impl RunDelay {
    /// Opens the count of the calling thread. The count is unknown if the kernel does not count.
    pub fn of_this_thread() -> RunDelay {
        let mut this = RunDelay {
            file: File::open("/proc/thread-self/schedstat").ok(),
            seen_ns: 0,
        };
        match this.read_ns() {
            Some(now_ns) => this.seen_ns = now_ns,
            None => this.file = None,
        }
        this
    }

    /// Returns a count that is unknown.
    pub fn unknown() -> RunDelay {
        RunDelay {
            file: None,
            seen_ns: 0,
        }
    }

    /// Returns whether the count is known.
    pub fn works(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the run delay since the last call, in nanoseconds; 0 if the count is unknown.
    pub fn advance_ns(&mut self) -> u64 {
        let Some(now_ns) = self.read_ns() else {
            return 0;
        };
        let before_ns = std::mem::replace(&mut self.seen_ns, now_ns);
        now_ns.saturating_sub(before_ns)
    }

    fn read_ns(&self) -> Option<u64> {
        let mut line = [0; LINE_BYTES];
        let length = self.file.as_ref()?.read_at(&mut line, 0).ok()?;
        run_delay_ns(&line[..length])
    }
}

/// Returns the second number in the file, the run delay in nanoseconds. The first number is the
/// time on the CPU in nanoseconds, and the third is how often the thread was switched in. A thread
/// that reads the file was switched in at least once. So if the third number is 0, the kernel does
/// not count, and the result is `None`.
fn run_delay_ns(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let mut numbers = line.split_ascii_whitespace().skip(1);
    let waited_ns = numbers.next()?.parse().ok()?;
    let turns: u64 = numbers.next()?.parse().ok()?;
    (turns > 0).then_some(waited_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_second_number_where_the_kernel_counts() {
        assert_eq!(run_delay_ns(b"60129 1234 7\n"), Some(1234));
        assert_eq!(run_delay_ns(b"0 0 0\n"), None);
        assert_eq!(run_delay_ns(b"12 7"), None);
        assert_eq!(run_delay_ns(b""), None);
    }

    #[test]
    fn unknown_never_moves() {
        let mut unknown = RunDelay::unknown();
        assert!(!unknown.works());
        assert_eq!(unknown.advance_ns(), 0);
    }
}
