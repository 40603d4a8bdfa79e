//! Verdicts on recordings: whether a run keeps a budget, whether runs differ, which setting is the
//! cheapest that keeps a goal, and whether a run of a command can be compared with others. The
//! crate does no I/O.

#![forbid(unsafe_code)]

mod bounds;
pub mod check;
pub mod compare;
pub mod fitness;
pub mod tuning;
