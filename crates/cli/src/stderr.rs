//! Stderr, which may take nothing as stdout may: a terminal after Ctrl-S, a pipe that is full. A run
//! leaves it to a thread of its own, and waits for it where the order matters to whoever reads,
//! and as the process ends. All other commands write on it themselves.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::fstat;

use crate::interrupt;
use crate::unbuffered::Unbuffered;
use crate::write_behind::{Room, Unwritten, WriteBehind};

/// What waits for a slow reader; what comes beyond is lost.
const ROOM: Room = Room {
    most: 1 << 20,
    // Nobody asks for it.
    all: usize::MAX,
};

/// There is one stderr, and every thread of a run says something.
static STDERR: Mutex<Stderr> = Mutex::new(Stderr {
    out: None,
    lost_lines: 0,
    is_given_up: false,
});

#[derive(Debug)]
struct Stderr {
    /// Of a run that has said something.
    out: Option<WriteBehind>,
    lost_lines: usize,
    /// It took nothing after Ctrl-C: nobody waits for it any more.
    is_given_up: bool,
}

/// Says these lines as soon as stderr takes them. Where too much waits for that already they are lost,
/// and counted.
pub fn say(lines: &str) {
    stderr().say(lines);
}

/// As [`say`], and nothing of it is lost. Who draws asks [`is_idle`] before, so little waits.
pub fn draw(text: &str) {
    stderr().write(text);
}

/// Whether stderr has all of it.
pub fn is_idle() -> bool {
    stderr().out.as_ref().is_none_or(WriteBehind::is_idle)
}

/// Waits before a result is written: where both go to the same place, it comes behind what was said.
pub fn wait_before_result() {
    let place = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    if fstat(io::stdout()).map(place) == fstat(io::stderr()).map(place) {
        end();
    }
}

/// Waits until stderr has all of it, or takes nothing and Ctrl-C asked for the end.
pub fn end() {
    // Others may say something meanwhile.
    let ending = {
        let mut stderr = stderr();
        stderr.tell_lost();
        stderr.out.take()
    };
    if let Some(Err(Unwritten::GivenUp { .. })) = ending.map(|out| out.end(|_| {})) {
        stderr().is_given_up = true;
    }
}

/// No code panics while it holds the lock.
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
                "vmnoise: {lost} lines are missing here: stderr took less than was told\n"
            ));
        }
    }

    /// Nothing can be said of a stderr that refuses: the terminal may be what was lost.
    fn write(&mut self, text: &str) {
        if self.is_given_up {
            return;
        }
        // Where nobody catches Ctrl-C it ends the process anyway.
        if self.out.is_none() && interrupt::is_caught() {
            self.out = WriteBehind::new(Unbuffered(io::stderr()), ROOM).ok();
        }
        let _ = match &mut self.out {
            Some(out) => out.write_all(text.as_bytes()),
            None => Unbuffered(io::stderr()).write_all(text.as_bytes()),
        };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::write_behind::tests::Hanging;

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
        let told = "vmnoise: 2 lines are missing here: stderr took less than was told";
        assert_eq!(taken, format!("first line\n{told}\nfourth\n"));
    }
}
