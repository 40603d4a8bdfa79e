//! Verdicts on hand-made streams.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod blind;
mod check;
mod check_estimates;
mod compare;
mod compare_kinds;
