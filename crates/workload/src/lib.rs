//! Workloads that measure. The microVM and the polling threads measure gaps. The periodic tasks
//! measure how late they wake up.
//!
//! [`RunningWorkload`] is the interface of all workloads. [`Workers`] manages the threads of a
//! workload. Each kind of workload has its own folder, and implements `SharedState` for its
//! threads. The other modules help measuring threads to use the TSC, the scheduler and idle CPUs.

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
