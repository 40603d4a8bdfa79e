//! Choice of the cheapest of several settings that keep a goal. The settings are measured in turn,
//! one window each. So the windows with the same number show the same state of the machine.

mod cheapest;
mod lateness;

pub use cheapest::cheapest;
pub use lateness::{Goal, Keeps, Lateness};
