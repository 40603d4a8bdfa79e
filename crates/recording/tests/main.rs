//! Tests of the recording's bytes: written, read back, damaged, and made by others.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod any;
mod common;

mod corpus;
mod faults;
mod limits;
mod round_trip;
mod sealed;
mod wild_rows;
