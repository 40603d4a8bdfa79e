//! Tests of the exports and of their documentation.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod documented;
mod hours;
mod read_back;
mod rewritten;
