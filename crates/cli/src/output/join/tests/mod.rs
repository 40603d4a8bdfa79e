//! A joined run as it is printed.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod fixtures;
mod json;
mod text;
