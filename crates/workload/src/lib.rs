//! The workloads that feel gaps: the microVM, and what a measuring thread needs
//! of the TSC and of the scheduler.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the microVM's guest program and the TSC exist on x86-64 only");

pub mod microvm;
pub mod thread;
pub mod tsc;
