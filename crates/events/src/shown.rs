//! Makes foreign text safe to show. Any local user can name tasks and virtual machines, and a
//! recording may come from anybody. In such a name, an escape sequence can control a terminal. A
//! line feed can forge a line of a result, and a bidi override can reorder the text next to it.
//!
//! All foreign text becomes a [`Name`] or a [`ShownLine`] where the text enters the program. Text
//! of these types is always safe: code can print, draw, export or record it without further checks.

use std::borrow::Borrow;
use std::fmt::{self, Write};
use std::ops::Deref;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Name of a task, an interrupt, a virtual machine or a CPU model. The limit of 128 characters fits
/// the longest name that libvirt gives to a virtual machine of KubeVirt (63 + `_` + 63).
pub type Name = ShownText<128>;

/// A sentence, for instance the limit of a probe.
pub type ShownLine = ShownText<1024>;

/// Text of at most `MAX` characters that is safe to show in a terminal or on a page. It has no
/// control characters, no line separators, no characters that change the writing direction, and no
/// invisible characters. The marks `␛`, `␊`, `�` and `…` show where characters were replaced or cut
/// off.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct ShownText<const MAX: usize>(String);

impl<const MAX: usize> ShownText<MAX> {
    /// Makes a text safe to show.
    pub fn new(foreign: &str) -> Self {
        let mut letters = foreign.chars();
        let mut text: String = letters.by_ref().take(MAX).map(shown).collect();
        if letters.next().is_some() {
            text.pop();
            text.push('…');
        }
        ShownText(text)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the printable replacement for an unsafe character, or the character itself.
fn shown(letter: char) -> char {
    match letter {
        // Unicode has a printable picture of each of these control characters.
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => '\u{fffd}',
        letter if is_unseen(letter) => '\u{fffd}',
        letter => letter,
    }
}

/// Returns whether a character is invisible, or only changes how other characters look. These are:
///
/// - the bidi formatting characters of Unicode's UAX #9
/// - the characters with the property Default_Ignorable_Code_Point (DerivedCoreProperties.txt)
/// - the interlinear annotation characters
fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

impl<const MAX: usize> From<&str> for ShownText<MAX> {
    fn from(foreign: &str) -> Self {
        Self::new(foreign)
    }
}

impl<const MAX: usize> From<String> for ShownText<MAX> {
    fn from(foreign: String) -> Self {
        Self::new(&foreign)
    }
}

/// Makes the path of a file safe to show to people.
impl<const MAX: usize> From<&Path> for ShownText<MAX> {
    fn from(foreign: &Path) -> Self {
        Self::new(&foreign.display().to_string())
    }
}

impl<const MAX: usize> From<ShownText<MAX>> for String {
    fn from(shown: ShownText<MAX>) -> String {
        shown.0
    }
}

impl<const MAX: usize> Deref for ShownText<MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Allows a look-up with a `&str` in a map whose keys are `ShownText`.
impl<const MAX: usize> Borrow<str> for ShownText<MAX> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> AsRef<str> for ShownText<MAX> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Display for ShownText<MAX> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl<const MAX: usize> PartialEq<str> for ShownText<MAX> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl<const MAX: usize> PartialEq<&str> for ShownText<MAX> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl<const MAX: usize> PartialEq<String> for ShownText<MAX> {
    fn eq(&self, other: &String) -> bool {
        self.0 == *other
    }
}

/// Makes a text of several lines safe to show. Line feeds stay, because vmnoise itself wrote them.
/// All other control characters are replaced, because words in the text may be foreign.
pub fn shown_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        let letter = if letter == '\n' {
            letter
        } else {
            shown(letter)
        };
        // Writing to a `String` cannot fail.
        let _ = out.write_char(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_seen_instead() {
        for (foreign, text) in [
            ("kworker/3:1-events", "kworker/3:1-events"),
            ("\x1b[2J\x1b]0;title\x07", "␛[2J␛]0;title␇"),
            ("nl\nFAKE 0 0 0", "nl␊FAKE 0 0 0"),
            ("a\rb\tc\0", "a␍b␉c␀"),
            ("\u{9b}31m\x7f", "�31m␡"),
            ("a\u{2028}b\u{2029}c\u{85}d", "a�b�c�d"),
            ("\u{202e}live\u{2066}x\u{2069}", "�live�x�"),
            ("in\u{200b}visible\u{e0041}", "in�visible�"),
            ("café 東京 Ω", "café 東京 Ω"),
        ] {
            assert_eq!(Name::new(foreign), *text, "{foreign:?}");
            assert_eq!(Name::from(foreign.to_owned()), *text);
        }
    }

    #[test]
    fn every_letter_is_either_itself_or_replaced_for_good() {
        for letter in '\0'..=char::MAX {
            let once = shown(letter);
            assert_eq!(shown(once), once, "{letter:?}");
            assert!(!once.is_control() && !is_unseen(once), "{letter:?}");
        }
    }

    #[test]
    fn what_is_too_long_ends_in_an_ellipsis() {
        let long = Name::new(&"é".repeat(1000));
        assert_eq!(long.chars().count(), 128);
        assert!(long.ends_with("é…"));
        assert_eq!(Name::new(&long), long);
        assert_eq!(Name::new(&"x".repeat(128)), *"x".repeat(128));
    }

    #[test]
    fn what_is_read_is_no_safer_than_what_is_said() {
        let name: Name = serde_json::from_str(r#""a\u001b[2J""#).unwrap();
        assert_eq!(name, "a␛[2J");
        assert_eq!(serde_json::to_string(&name).unwrap(), r#""a␛[2J""#);
        assert_eq!(format!("{:>4}|", Name::new("a")), "   a|");
    }

    #[test]
    fn lines_of_our_own_stay_lines() {
        assert_eq!(shown_lines("one\ntwo\x1b[2J"), "one\ntwo␛[2J");
    }
}
