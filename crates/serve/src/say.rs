//! Messages on stderr.

use vmnoise_events::shown_lines;

/// Prints one line. Replaces unsafe characters, because `words` may contain texts from files that
/// other users wrote.
pub(crate) fn say(words: &str) {
    eprintln!("vmnoise serve: {}", shown_lines(words));
}
