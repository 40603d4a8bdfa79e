//! Tests `vmnoise-lab` as a researcher uses it: runs cells in emulation, and reads their reports.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod conclusions;
mod host;
mod matrix;
mod network;
mod program;
