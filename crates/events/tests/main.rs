//! The words of the result beside those of kernels.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod arm64;
