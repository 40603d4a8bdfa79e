//! Drives the BPF handlers with given streams: every value and every time comes from the test, none
//! from the machine.

mod bpf_run {
    mod any_stream;
    mod harness;
    mod interrupts;
    mod kvm;
    mod observed;
    mod steal;
    mod stops;
    mod tasks;
    mod timer;
    mod unseen;
}
