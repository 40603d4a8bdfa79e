//! Tests of the gate's handlers with streams whose result is known, and of the gate on this
//! machine.

mod bpf_run {
    mod any_life;
    mod confirmed;
    mod harness;
    mod lives;
}
