//! Predictions from recordings:
//!
//! - the least time that a CPU left to its task in any window
//! - whether tasks meet their deadlines with that time
//! - the slowdown of a program whose ranks wait for the slowest
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

pub use record::{CpuRecord, HadBy, RecordCulprit, TakenBy};
pub use taken::TakenTime;
pub use unseen::Unseen;
