//! Decoder for the keys that a terminal sends.
//!
//! The terminal is read without waiting, because the same thread drains the ring buffers. A
//! library's reader may wait for the rest of an incomplete key, and may loop forever after the
//! terminal is gone.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const NO_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A letter.
    Letter(char),
    /// A letter together with Ctrl.
    Ctrl(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Error: the terminal is gone.
#[derive(Debug, PartialEq, Eq)]
pub struct TerminalGone;

/// Returns the keys pressed since the last call.
///
/// # Errors
/// If the terminal is gone.
pub fn pressed() -> Result<Vec<Key>, TerminalGone> {
    let terminal = rustix::stdio::stdin();
    let mut wanted = [PollFd::new(&terminal, PollFlags::IN)];
    match poll(&mut wanted, Some(&NO_TIME)) {
        Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(_) => return Err(TerminalGone),
    }
    let reported = wanted[0].revents();
    if reported.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(TerminalGone);
    }
    let mut bytes = [0; 256];
    match rustix::io::read(terminal, &mut bytes) {
        Ok(0) => Err(TerminalGone),
        Ok(count) => Ok(decode(&bytes[..count])),
        Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
        Err(_) => Err(TerminalGone),
    }
}

/// Decodes these bytes, and skips unknown keys and invalid bytes.
pub fn decode(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    let mut keys = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (key, len) = match rest.strip_prefix('\x1b') {
            Some(behind) => after_escape(behind),
            None => (plain(first), first.len_utf8()),
        };
        keys.extend(key);
        rest = &rest[len..];
    }
    keys
}

fn plain(letter: char) -> Option<Key> {
    match letter {
        '\r' | '\n' => Some(Key::Enter),
        '\t' => Some(Key::Tab),
        '\x08' | '\x7f' => Some(Key::Backspace),
        '\x01'..='\x1a' => Some(Key::Ctrl(char::from(letter as u8 + b'a' - 1))),
        char::REPLACEMENT_CHARACTER => None,
        letter if letter.is_control() => None,
        letter => Some(Key::Letter(letter)),
    }
}

/// Decodes the text after an escape character. A sequence has `[` or `O`, parameters and a last
/// character. Without a sequence, the key is Escape. Returns the key, and the length with the
/// escape character.
fn after_escape(behind: &str) -> (Option<Key>, usize) {
    let Some(sequence) = behind.strip_prefix(['[', 'O']) else {
        return (Some(Key::Escape), 1);
    };
    let Some(last) = sequence.find(|c: char| ('@'..='~').contains(&c)) else {
        // The sequence is incomplete or invalid.
        return (None, 1 + behind.len());
    };
    let key = match &sequence[..=last] {
        "A" => Some(Key::Up),
        "B" => Some(Key::Down),
        "C" => Some(Key::Right),
        "D" => Some(Key::Left),
        "H" | "1~" | "7~" => Some(Key::Home),
        "F" | "4~" | "8~" => Some(Key::End),
        "5~" => Some(Key::PageUp),
        "6~" => Some(Key::PageDown),
        "M" => Some(Key::Enter),
        "Z" => Some(Key::BackTab),
        _ => None,
    };
    (key, 2 + last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_control_letters() {
        assert_eq!(
            decode(b"q? /\r\t\x7f\x03\x1a\x0c"),
            [
                Key::Letter('q'),
                Key::Letter('?'),
                Key::Letter(' '),
                Key::Letter('/'),
                Key::Enter,
                Key::Tab,
                Key::Backspace,
                Key::Ctrl('c'),
                Key::Ctrl('z'),
                Key::Ctrl('l'),
            ]
        );
        assert_eq!(decode("\u{e9}".as_bytes()), [Key::Letter('\u{e9}')]);
    }

    #[test]
    fn sequences_of_both_kinds() {
        assert_eq!(
            decode(b"\x1b[A\x1bOB\x1b[C\x1b[D\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1b[Z"),
            [
                Key::Up,
                Key::Down,
                Key::Right,
                Key::Left,
                Key::PageUp,
                Key::PageDown,
                Key::Home,
                Key::End,
                Key::BackTab,
            ]
        );
    }

    #[test]
    fn an_escape_alone_is_a_key_and_an_unknown_sequence_is_none() {
        assert_eq!(decode(b"\x1b"), [Key::Escape]);
        assert_eq!(decode(b"\x1bq"), [Key::Escape, Key::Letter('q')]);
        assert_eq!(decode(b"\x1b[15~q"), [Key::Letter('q')]);
        assert_eq!(decode(b"\x1b[1;5Aq"), [Key::Letter('q')]);
        assert_eq!(decode(b"\x1b[1;"), []);
        assert_eq!(decode(b"\xff\x00q"), [Key::Letter('q')]);
    }
}
