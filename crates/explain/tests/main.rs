//! Tests results of streams of events: by hand, by law and by oracle.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod laws;
mod streams;

mod arm64;
mod attribution;
mod budget_law;
mod clock_jump;
mod columns;
mod feed;
mod interference;
mod join_bound;
mod join_by_hand;
mod join_damaged;
mod join_instants;
mod join_law;
mod join_matcher;
mod join_oracle;
mod join_order;
mod join_pairs;
mod join_paused;
mod join_refusals;
mod join_residual;
mod join_truth;
mod join_usual;
mod latency_matcher;
mod latency_oracle;
mod many_cpus;
mod observed;
mod oracle;
mod pairing;
mod stops;
mod summary;
mod trace;
mod vcpus;
mod vcpus_kvm;
mod vcpus_law;
mod vcpus_reported;
mod wakeups;
mod wakeups_law;
