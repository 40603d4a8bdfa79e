//! Tests of the output of a joined run.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod fixtures;
mod json;
mod text;
