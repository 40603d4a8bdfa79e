//! The handlers, fed streams whose truth is known, and the programs on this machine.

mod bpf_run;
mod root;
