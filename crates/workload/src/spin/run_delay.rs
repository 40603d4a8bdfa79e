//! How long a polling thread waited for its CPU, by the scheduler's own count. No rights are needed to read it, so it
//! says what other threads had where BPF cannot.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Three numbers of up to 20 digits.
const LINE_BYTES: usize = 64;

/// The count of one thread, or none, and where it stood last.
#[derive(Debug)]
pub struct RunDelay {
    file: Option<File>,
    seen_ns: u64,
}

impl RunDelay {
    /// That of the thread that calls; a kernel that does not count has none.
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

    /// None.
    pub fn unknown() -> RunDelay {
        RunDelay {
            file: None,
            seen_ns: 0,
        }
    }

    /// Whether there is one.
    pub fn works(&self) -> bool {
        self.file.is_some()
    }

    /// By how much it moved since the reading before, in nanoseconds.
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

/// The second number of the file: nanoseconds on the CPU, nanoseconds of waiting for it, and turns. A thread that reads
/// it has had a turn, so a kernel that says 0 turns counts nothing.
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
