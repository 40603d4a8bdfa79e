//! Verdicts on streams of events that the tests make up.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod blind;
mod check;
mod check_estimates;
mod compare;
mod compare_conditions;
mod compare_kinds;
