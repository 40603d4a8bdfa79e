//! What the tasks promise, and the order of the sources. One program: it is linked once.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod circles;
mod gate;
mod sbom;
