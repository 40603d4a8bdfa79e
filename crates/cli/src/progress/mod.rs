//! Progress of reading. Every recording is opened here, so every reader shows its progress in a line
//! on stderr, if that is a terminal.

mod gauge;
mod reading;

pub use reading::{RecordingInput, expect, none, open};
