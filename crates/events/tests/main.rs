//! Checks of our words against the words of kernels.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod arm64;
