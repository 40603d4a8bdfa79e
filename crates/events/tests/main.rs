//! The words of the result beside those of kernels.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod arm64;
