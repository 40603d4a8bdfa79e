//! Messages on stderr, and names of files in messages and results.

use std::fmt::Display;
use std::path::Path;

use vmnoise_events::{ShownLine, shown_lines};

use crate::stderr;

/// Prints a line on stderr that begins with the program's name. Names of files and messages of the
/// system are untrusted, so this function makes control characters visible.
pub fn say(words: impl Display) {
    print(format_args!("vmnoise: {words}"));
}

/// Prints a line on stderr as [`say`] does, without the program's name.
pub fn print(words: impl Display) {
    stderr::say(&format!("{}\n", shown_lines(&words.to_string())));
}

/// Returns the name of a file for results and messages, without control characters.
pub fn name_of(file: &Path) -> String {
    ShownLine::from(file).into()
}
