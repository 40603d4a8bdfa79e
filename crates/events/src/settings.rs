//! Settings of a machine at the start of a run: the files of /proc and /sys that an audit reads.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::ShownText;

/// Text of each settings file, by its path.
///
/// - A path has no leading `/`, and the text has no surrounding white space.
/// - `None` as text means that the file does not exist.
/// - A path that is missing in the map was not read, so its setting is unknown.
/// - The path of a folder ends in `/`. The text lists the names of its subfolders, one per line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, Option<String>>);

/// Error: the path or the text cannot be a setting of any machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSetting;

impl Settings {
    /// Maximum number of settings. A large machine has some hundred settings, and one more for each
    /// device interrupt.
    pub const MOST: usize = 8_192;
    /// Maximum length of a path, in bytes.
    const LONGEST_PATH: usize = 512;
    /// Maximum length of a file's text, in bytes.
    const LONGEST_TEXT: usize = 64 << 10;

    /// Returns the text of this file, where `Some(None)` means that the file does not exist; `None`
    /// if the file was not read.
    pub fn get(&self, path: &str) -> Option<Option<&str>> {
        self.0.get(path).map(Option::as_deref)
    }

    /// Returns all settings, ordered by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(path, text)| (&**path, text.as_deref()))
    }

    /// Adds a file with its text; `None` as text means that the file does not exist.
    ///
    /// # Errors
    /// If no machine can have this setting: the path is not a clean relative path, the text has
    /// control characters, path or text is too long, or there are already [`Settings::MOST`]
    /// settings.
    pub fn insert(&mut self, path: &str, text: Option<&str>) -> Result<(), NoSetting> {
        let is_one = is_path(path) && text.is_none_or(is_text) && self.0.len() < Settings::MOST;
        match is_one {
            true => {
                self.0.insert(path.to_owned(), text.map(str::to_owned));
                Ok(())
            }
            false => Err(NoSetting),
        }
    }
}

/// Returns whether the path is relative and printable, has no `.` or `..` parts, and is not too
/// long.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    let file = path.strip_suffix('/').unwrap_or(path);
    path.len() <= Settings::LONGEST_PATH && is_shown(path) && file.split('/').all(is_part)
}

fn is_text(text: &str) -> bool {
    text.len() <= Settings::LONGEST_TEXT
        && text.split('\n').all(|line| line.split('\t').all(is_shown))
}

/// Returns whether the text can be shown unchanged.
fn is_shown(text: &str) -> bool {
    ShownText::<{ Settings::LONGEST_TEXT }>::new(text) == *text
}

/// The input may come from anybody. So each entry is checked as [`Settings::insert`] checks it.
impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Settings, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Settings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings by their paths")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Settings, M::Error> {
                let mut settings = Settings::default();
                while let Some((path, text)) = map.next_entry::<String, Option<String>>()? {
                    let inserted = settings.insert(&path, text.as_deref());
                    inserted.map_err(|NoSetting| M::Error::custom(NoSetting))?;
                }
                Ok(settings)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl fmt::Display for NoSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no machine can have this setting (its path or text is not valid)")
    }
}

impl std::error::Error for NoSetting {}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(path: &str, text: Option<&str>) -> bool {
        let mut settings = Settings::default();
        let inserted = settings.insert(path, text).is_ok();
        assert_eq!(settings.get(path).is_some(), inserted);
        inserted
    }

    #[test]
    fn what_no_machine_says_is_refused() {
        for path in ["proc/cmdline", "proc/irq/", "sys/class/net/eth0.1/x", "a"] {
            assert!(takes(path, None), "{path:?}");
        }
        let long = "a".repeat(Settings::LONGEST_PATH + 1);
        for path in [
            "",
            "/",
            "/proc",
            "a//b",
            "a/../b",
            "..",
            "a/..",
            "./a",
            "a\nb",
            "a\x1bb",
            "a\u{202e}b",
            &long,
        ] {
            assert!(!takes(path, None), "{path:?}");
        }
        for (text, is_taken) in [
            ("", true),
            ("a\n\tb\n", true),
            ("a\x1b[2J", false),
            ("a\rb", false),
            ("a\0", false),
        ] {
            assert_eq!(takes("a", Some(text)), is_taken, "{text:?}");
        }
        let long = "a".repeat(Settings::LONGEST_TEXT + 1);
        assert!(!takes("a", Some(&long)) && takes("a", Some(&long[1..])));
    }

    #[test]
    fn what_is_read_back_is_what_there_was() {
        let mut settings = Settings::default();
        settings.insert("proc/irq/", Some("1\n24")).unwrap();
        settings.insert("sys/kernel/realtime", None).unwrap();
        let json = r#"{"proc/irq/":"1\n24","sys/kernel/realtime":null}"#;
        assert_eq!(serde_json::to_string(&settings).unwrap(), json);
        assert_eq!(serde_json::from_str::<Settings>(json).unwrap(), settings);
        for json in [
            r#"{"../etc/shadow":""}"#,
            r#"{"a":"\u001b"}"#,
            r#"{"a":1}"#,
            "[]",
            &format!(
                "{{{}}}",
                (0..=Settings::MOST)
                    .map(|it| format!("\"{it}\":null"))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ] {
            assert!(serde_json::from_str::<Settings>(json).is_err());
        }
    }
}
