//! What must hold of vmnoise for any input, target by target, and a program that makes inputs
//! without end. `fuzz/README.md` says how to run it.
#![forbid(unsafe_code)]

mod grammar;
mod input;
mod recordings;
mod targets;

pub use input::Inputs;
pub use targets::{BROKEN, TARGETS, Target};

use std::path::PathBuf;

/// Inputs that are tried again and again: folders in this tree, by [`Target::corpus`].
pub fn corpus() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus").into()
}
