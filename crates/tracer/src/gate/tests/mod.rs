//! Tests of the gate's handlers with event streams whose result is known.

mod bpf_run {
    mod any_life;
    mod confirmed;
    mod harness;
    mod lives;
}
