//! Choice of the cheapest of several settings that keep a goal. Each is measured in windows, in
//! turn, so that the n-th windows of all settings see the same machine.

mod cheapest;
mod lateness;

pub use cheapest::cheapest;
pub use lateness::{Goal, Keeps, Lateness};
