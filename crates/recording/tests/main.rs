//! The recording as bytes: written, read back, damaged, and made by strangers. One program: it is
//! linked once.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod any;
mod common;

mod corpus;
mod faults;
mod limits;
mod round_trip;
mod sealed;
mod wild_rows;
