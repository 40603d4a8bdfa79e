//! Tests of the handlers with event streams whose result is known, and of the programs on this
//! machine.

mod bpf_run;
mod root;
