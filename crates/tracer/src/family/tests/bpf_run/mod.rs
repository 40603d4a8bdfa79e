//! The handlers by BPF_PROG_RUN: every instant and what the steal clock says come from the test.

mod any_life;
mod harness;
mod lives;
