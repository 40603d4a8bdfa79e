//! Tests of the handlers with streams whose result is known, and of the programs on this machine.

mod bpf_run;
mod root;
