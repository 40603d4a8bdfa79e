//! Tests of vmnoise as a program, and of its documents.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod join_pair;
mod many_gaps;
mod timer_recording;

mod architecture;
mod audit;
mod blind;
mod bombs;
mod check;
mod compare;
mod compare_groups;
mod data_set;
mod exits_churn;
mod exits_followed;
mod exits_recorded;
mod exits_reported;
mod exits_trace;
mod export;
mod export_lengths;
mod export_stacks;
mod fleet;
mod fleet_page;
mod frame;
mod host_feed;
mod hostile;
mod join;
mod lease;
mod loggopsim;
mod manual;
mod mistakes;
mod one_clock;
mod perfetto;
mod promises;
mod report;
mod rights;
mod rt_tests;
mod run_command;
mod scale;
mod schedule;
mod schedule_sets;
mod stand_in;
mod timerlat_reported;
mod transcripts;
mod tune_timer;
mod way_in;
