//! What is said beside a result, on stderr, and what files are called in both.

use std::fmt::Display;
use std::path::Path;

use vmnoise_events::{Line, shown_lines};

use crate::stderr;

/// Says this as a line of the program's. It may hold names of files and what the system says
/// of them, which are other people's words: nothing in it steers the terminal.
pub fn say(words: impl Display) {
    print(format_args!("vmnoise: {words}"));
}

/// As `say`, without the program's name.
pub fn print(words: impl Display) {
    stderr::say(&format!("{}\n", shown_lines(&words.to_string())));
}

/// How a file is called in results.
pub fn name_of(file: &Path) -> String {
    Line::from(file).into()
}
