//! The workloads that feel gaps: the microVM and the polling threads, and what a
//! measuring thread needs of the TSC and of the scheduler.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the microVM's guest program and the TSC exist on x86-64 only");

pub mod cgroup;
mod deadline;
mod gate;
mod mailbox;
mod measuring_thread;
pub mod microvm;
pub mod spin;
pub mod thread;
pub mod tsc;
