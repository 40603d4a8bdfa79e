//! The tracer on this machine: real events of known causes, and nothing left behind.

mod root {
    mod causes;
    mod harness;
    mod interference;
    mod interrupts;
    mod steal;
    mod traces;
}
