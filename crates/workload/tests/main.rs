//! The workloads on this machine.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod common;

mod exercise;
mod microvm;
mod spin;
mod timer;
