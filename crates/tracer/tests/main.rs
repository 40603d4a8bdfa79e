//! The tracer on this machine: real events with known causes, and nothing left behind.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod root {
    mod causes;
    mod harness;
    mod interference;
    mod interrupts;
    mod steal;
    mod traces;
}
