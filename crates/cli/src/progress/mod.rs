//! How far a long job is: one line on stderr, where somebody sees it. Every recording is
//! opened here, so whatever reads one shows how far it is.

mod gauge;
mod line;
mod reading;
mod run;
mod term_caps;

pub use reading::{Input, expect, none, open};
pub use run::{TimeLine, planned};
pub use term_caps::can_draw_over;
