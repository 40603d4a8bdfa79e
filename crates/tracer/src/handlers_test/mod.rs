//! Tests the BPF handlers with given streams of events. All values and times come from the tests,
//! and none from the machine. Only `misses` causes an event of this machine.

mod bpf_run {
    mod any_stream;
    mod harness;
    mod interrupts;
    mod kvm;
    mod misses;
    mod observed;
    mod steal;
    mod stops;
    mod tasks;
    mod timer;
    mod unseen;
}
