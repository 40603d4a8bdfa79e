//! Stderr, which may block: a terminal blocks after Ctrl-S, and a pipe blocks when it is full. A
//! command that catches Ctrl-C therefore writes through a separate thread. The command waits for
//! this thread before it prints a result to the same file, and before the process ends. All other
//! commands write directly.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::fstat;

use crate::interrupt;
use crate::unbuffered::UnbufferedOutput;
use crate::write_behind::{Room, Unwritten, WriteBehind};

/// Limits for the bytes that wait for a slow reader. Lines above the limit are dropped and counted.
const ROOM: Room = Room {
    most: 1 << 20,
    // Unused: stderr never asks whether this limit is exceeded.
    all: usize::MAX,
};

/// Stderr of the process, which all threads share.
static STDERR: Mutex<Stderr> = Mutex::new(Stderr {
    out: None,
    lost_lines: 0,
    is_given_up: false,
});

#[derive(Debug)]
struct Stderr {
    /// Writer thread; `None` until a command that catches Ctrl-C prints its first message.
    out: Option<WriteBehind>,
    lost_lines: usize,
    /// Whether writing was given up, because stderr took nothing and Ctrl-C was pressed.
    is_given_up: bool,
}

/// Prints these lines as soon as stderr takes them. If too many bytes already wait, drops and
/// counts the lines.
pub fn say(lines: &str) {
    stderr().say(lines);
}

/// Prints text that is never dropped. The caller checks [`is_idle`] first, so that few bytes wait.
pub fn draw(text: &str) {
    stderr().write(text);
}

/// Returns whether stderr has taken everything.
pub fn is_idle() -> bool {
    stderr().out.as_ref().is_none_or(WriteBehind::is_idle)
}

/// Waits for stderr if stdout is the same file, so that a result comes after earlier messages.
pub fn wait_before_result() {
    let place = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    if fstat(io::stdout()).map(place) == fstat(io::stderr()).map(place) {
        end();
    }
}

/// Waits until stderr has taken everything. Gives up if Ctrl-C was pressed and stderr has taken
/// nothing for 5 s.
pub fn end() {
    // The lock is released before the wait, so that other threads can print meanwhile.
    let ending = {
        let mut stderr = stderr();
        stderr.tell_lost();
        stderr.out.take()
    };
    if let Some(Err(Unwritten::GivenUp { .. })) = ending.map(|out| out.end(|_| {})) {
        stderr().is_given_up = true;
    }
}

/// Locks stderr; poisoning is ignored, because no code panics while it holds the lock.
fn stderr() -> MutexGuard<'static, Stderr> {
    STDERR.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stderr {
    fn say(&mut self, lines: &str) {
        if self.out.as_ref().is_none_or(WriteBehind::has_room) {
            self.tell_lost();
            self.write(lines);
        } else {
            self.lost_lines += lines.lines().count();
        }
    }

    fn tell_lost(&mut self) {
        let lost = std::mem::take(&mut self.lost_lines);
        if lost > 0 {
            self.write(&format!(
                "vmnoise: {lost} lines are missing here: stderr was too slow\n"
            ));
        }
    }

    /// Writes text, and ignores errors: there is no other place to report them.
    fn write(&mut self, text: &str) {
        if self.is_given_up {
            return;
        }
        // If Ctrl-C is not caught, it ends the process, and a direct write is enough.
        if self.out.is_none() && interrupt::is_caught() {
            self.out = WriteBehind::new(UnbufferedOutput(io::stderr()), ROOM).ok();
        }
        let _ = match &mut self.out {
            Some(out) => out.write_all(text.as_bytes()),
            None => UnbufferedOutput(io::stderr()).write_all(text.as_bytes()),
        };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::fixtures::Hanging;

    #[test]
    fn what_finds_no_room_is_counted_and_told_in_its_place() {
        let reader = Hanging::default();
        let room = Room { most: 10, ..ROOM };
        let mut stderr = Stderr {
            out: Some(WriteBehind::new(reader.clone(), room).unwrap()),
            lost_lines: 0,
            is_given_up: false,
        };
        let held = reader.0.lock().unwrap();
        for line in ["first line\n", "second\n", "third\n"] {
            stderr.say(line);
        }
        drop(held);
        while !stderr.out.as_ref().unwrap().is_idle() {
            std::thread::yield_now();
        }
        stderr.say("fourth\n");
        stderr.out.take().unwrap().end(|_| {}).unwrap();
        let taken = String::from_utf8(reader.0.lock().unwrap().clone()).unwrap();
        let told = "vmnoise: 2 lines are missing here: stderr was too slow";
        assert_eq!(taken, format!("first line\n{told}\nfourth\n"));
    }
}
