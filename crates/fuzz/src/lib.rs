//! Properties that must hold for any input, by target, and a program that searches for inputs that
//! break them. `fuzz/README.md` says how to run it.
#![forbid(unsafe_code)]

mod grammar;
mod input;
mod recordings;
mod targets;

pub use input::Inputs;
pub use targets::{BROKEN, FuzzTarget, TARGETS};

use std::path::PathBuf;

/// Returns the folder of the inputs that are tried again each time: one folder for each
/// [`FuzzTarget::corpus`].
pub fn corpus() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus").into()
}
