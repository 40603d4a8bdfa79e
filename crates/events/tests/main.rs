//! The words of the result beside those of kernels. One program: it is linked once.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod arm64;
