//! The recording as bytes: written, read back, damaged, and made by strangers.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod any;
mod common;

mod corpus;
mod faults;
mod limits;
mod round_trip;
mod sealed;
mod wild_rows;
