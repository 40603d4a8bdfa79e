//! Helpers that the tests of several crates share. Only for `dev-dependencies`. A failed helper
//! fails the test: it panics and names the line of the test.
#![forbid(unsafe_code)]

mod process;
mod waiting;

pub use process::TestProcess;
pub use waiting::{wait_for, wait_until, wait_until_every};
