//! Tests the results for streams of events: with expected numbers, with laws, and with oracles.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod law;
mod laws;
mod streams;

mod arm64;
mod attribution;
mod clock_jump;
mod columns;
mod feed;
mod interference;
mod join_bound;
mod join_by_hand;
mod join_damaged;
mod join_instants;
mod join_order;
mod join_paused;
mod join_refusals;
mod join_residual;
mod join_usual;
mod many_cpus;
mod pairing;
mod stops;
mod summary;
mod vcpus;
mod vcpus_reported;
mod wakeups;
