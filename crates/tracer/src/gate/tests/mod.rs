//! The gate's handlers, fed streams whose truth is known, and the gate on this machine.

mod bpf_run {
    mod any_life;
    mod confirmed;
    mod harness;
    mod lives;
}
