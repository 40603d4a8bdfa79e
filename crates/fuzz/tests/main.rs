//! The search for inputs that break something, and what it ever found.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod corpus;
mod search;
