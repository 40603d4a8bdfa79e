//! The handlers by BPF_PROG_RUN: every time, and the steal clock, come from the test.

mod any_life;
mod harness;
mod lives;
