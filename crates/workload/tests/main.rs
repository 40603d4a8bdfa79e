//! Tests the workloads on this machine.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod common;

mod exercise;
mod microvm;
mod spin;
mod timer;
