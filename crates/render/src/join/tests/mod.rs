//! Tests of the output of a joined run.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod fixtures;
mod json;
mod text;
