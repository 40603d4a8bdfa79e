//! Predictions from recordings:
//!
//! - the least time that a CPU left to its task in any window
//! - whether tasks meet their deadlines with that time
//! - the slowdown of a parallel program whose ranks wait for the slowest rank
//!
//! This crate does no I/O and reads no clock. All times are in nanoseconds.

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
