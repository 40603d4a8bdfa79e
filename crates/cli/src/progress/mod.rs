//! Progress of reading: one line on stderr, if stderr is a terminal. This module opens all
//! recordings, so every reader shows its progress.

mod gauge;
mod reading;

pub use reading::{RecordingInput, expect, none, open};
