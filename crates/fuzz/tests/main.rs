//! Tests of the search for inputs that break a target, and of its corpus.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod corpus;
mod search;
