//! What is said on stderr.

use vmnoise_events::shown_lines;

/// A line of it. What the kernel says of others' files may be in it.
pub(crate) fn say(words: &str) {
    eprintln!("vmnoise serve: {}", shown_lines(words));
}
