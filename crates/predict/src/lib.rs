//! What a recording says beyond itself: the least time that a CPU left to its task in any window of
//! it, whether tasks keep their deadlines with that, and what becomes of a program whose ranks wait
//! for the slowest.
//!
//! Pure: no I/O, no clock. All times are nanoseconds.

#![forbid(unsafe_code)]

mod lengths;
mod record;
pub mod scale;
pub mod schedule;
pub mod supply;
pub mod tail;
mod taken;
mod unseen;

pub use record::{Culprit, HadBy, Record, TakenBy};
pub use taken::Taken;
pub use unseen::Unseen;
