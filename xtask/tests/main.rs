//! What the tasks promise, and the order of the sources.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod circles;
mod gate;
mod module_files;
mod sbom;
mod words;
