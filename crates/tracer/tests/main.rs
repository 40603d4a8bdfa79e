//! Tests of the tracer on this machine: real events with known causes, and no remains in the
//! kernel.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod root {
    mod causes;
    mod harness;
    mod interference;
    mod interrupts;
    mod steal;
    mod traces;
}
