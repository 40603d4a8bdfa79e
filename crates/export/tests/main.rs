//! The export beside its documents.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod documented;
mod hours;
mod read_back;
mod rewritten;
