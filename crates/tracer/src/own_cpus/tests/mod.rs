//! On this machine.

mod root;
