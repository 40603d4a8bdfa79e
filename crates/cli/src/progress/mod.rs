//! Progress of a long job: one line on stderr, if stderr is a terminal. This module opens all
//! recordings, so every reader shows its progress.

mod gauge;
mod line;
mod reading;
mod run;
mod term_caps;

pub use reading::{RecordingInput, expect, none, open};
pub use run::{TimeLine, planned};
pub use term_caps::can_draw_over;
