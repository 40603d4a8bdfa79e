//! Tests of the tasks, and of rules for the sources.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod circles;
mod gate;
mod module_files;
mod sbom;
mod words;
