//! Messages on stderr.

use vmnoise_events::shown_lines;

/// Prints one line. Unsafe characters are replaced, since it may contain texts from files of
/// others.
pub(crate) fn say(words: &str) {
    eprintln!("vmnoise serve: {}", shown_lines(words));
}
