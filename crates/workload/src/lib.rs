//! The workloads: the microVM and the polling threads, which measure gaps, and the periodic tasks,
//! which measure how late they wake up.
//!
//! [`Workload`] is the interface of all of them. [`Workers`] has what their threads have in common,
//! and `SharedState` has the differences: each kind has a folder. The rest is what a measuring
//! thread needs for the TSC, the scheduler and idle CPUs.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the microVM's guest program and the TSC exist on x86-64 only");

pub mod cgroup;
mod deadline;
mod error;
pub mod idle;
mod keeper;
mod kick;
mod lease;
mod mailbox;
pub mod microvm;
mod shared_state;
pub mod spin;
mod start_barrier;
pub mod thread;
mod thread_error;
pub mod timer;
pub mod tsc;
mod worker;
mod workers;
mod workload;

pub use error::Error;
pub use workers::Workers;
pub use workload::{Failure, MeasuredThread, RunningWorkload};
