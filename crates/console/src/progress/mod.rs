//! Progress of a long job: one line on stderr, if stderr is a terminal.

mod line;
mod run;
mod term_caps;

pub use line::ProgressLine;
pub use run::{TimeLine, planned};
pub use term_caps::can_draw_over;
