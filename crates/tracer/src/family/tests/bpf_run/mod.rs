//! Runs the handlers by BPF_PROG_RUN. All times and the steal clock come from the tests.

mod any_life;
mod harness;
mod lives;
