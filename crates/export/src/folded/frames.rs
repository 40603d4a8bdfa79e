//! Frames of stacks. Each text is stored once.

use std::collections::HashMap;
use std::fmt::Write;

use vmnoise_events::Name;

/// Index of a frame's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame(usize);

/// Frames of stacks: the text of each frame, and the indices of known frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    texts: Vec<String>,
    own: HashMap<String, Frame>,
    /// Frames by a name that came from outside, such as a task's name.
    foreign: HashMap<String, Frame>,
    /// Frames of VMs, by the process id of the VMM.
    vms: HashMap<u32, Frame>,
}

impl Frames {
    /// Returns the frame for a text that vmnoise itself wrote.
    pub(super) fn own(&mut self, words: String) -> Frame {
        let Frames { texts, own, .. } = self;
        *own.entry(words)
            .or_insert_with_key(|words| push(texts, words.clone()))
    }

    /// Returns the frame for a name that came from outside. The name is escaped.
    pub(super) fn foreign(&mut self, name: &str) -> Frame {
        if let Some(frame) = self.foreign.get(name) {
            return *frame;
        }
        let frame = push(&mut self.texts, harmless(name));
        self.foreign.insert(name.to_owned(), frame);
        frame
    }

    /// Returns the frame of the VM with this VMM process. Its name may be set later.
    pub(super) fn vm(&mut self, vmm_pid: u32) -> Frame {
        let Frames { texts, vms, .. } = self;
        let new = || push(texts, format!("vm:{vmm_pid}"));
        *vms.entry(vmm_pid).or_insert_with(new)
    }

    /// Sets the name of the VM with this VMM process.
    pub(super) fn name_vm(&mut self, vmm_pid: u32, name: &Name) {
        let Frame(place) = self.vm(vmm_pid);
        self.texts[place] = format!("{}:{vmm_pid}", harmless(name));
    }

    pub(super) fn text(&self, frame: Frame) -> &str {
        &self.texts[frame.0]
    }
}

fn push(texts: &mut Vec<String>, text: String) -> Frame {
    texts.push(text);
    Frame(texts.len() - 1)
}

/// Percent-encodes all characters that separate frames, numbers or lines.
fn harmless(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        if matches!(letter, ';' | '%') || letter.is_whitespace() || letter.is_control() {
            for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
        } else {
            text.push(letter);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn separators_are_written_as_in_addresses() {
        assert_eq!(harmless("ksoftirqd/0:15"), "ksoftirqd/0:15");
        assert_eq!(harmless("a;b 12\n%3B"), "a%3Bb%2012%0A%253B");
        assert_eq!(harmless("\u{2028}"), "%E2%80%A8");
    }

    proptest! {
        /// Different names stay different, and no name contains a separator.
        #[test]
        fn a_name_can_be_read_back(name in any::<String>()) {
            let text = harmless(&name);
            let mut bytes = Vec::new();
            let mut rest = text.as_bytes();
            while let [first, after @ ..] = rest {
                let (byte, after) = match first {
                    b'%' => {
                        let hex = std::str::from_utf8(&after[..2]).unwrap();
                        (u8::from_str_radix(hex, 16).unwrap(), &after[2..])
                    }
                    byte => (*byte, after),
                };
                bytes.push(byte);
                rest = after;
            }
            prop_assert_eq!(String::from_utf8(bytes).unwrap(), name);
            prop_assert!(!text.contains([';', ' ', '\t', '\n', '\r']));
        }
    }
}
