//! Tests of the program as a researcher uses it: cells in emulation, and their reports.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod conclusions;
mod host;
mod matrix;
mod network;
mod program;
