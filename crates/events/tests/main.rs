//! Checks that names in this crate equal the names that kernels use.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod arm64;
