//! The export beside its documents. One program: it is linked once.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod documented;
