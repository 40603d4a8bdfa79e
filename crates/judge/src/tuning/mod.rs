//! Which of several settings keeps a goal at the least cost: each is measured in windows, and they
//! take turns, so that the n-th windows of all of them saw the same machine.

mod cheapest;
mod lateness;

pub use cheapest::cheapest;
pub use lateness::{Goal, Keeps, Lateness};
