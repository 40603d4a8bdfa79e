//! Sets the scheduling priorities of threads of other processes.

use anyhow::{Context, Result};
use vmnoise_workload::thread;

use crate::schedstat;

/// Runs a thread at SCHED_FIFO with this priority.
///
/// # Errors
/// If the thread has ended, or the kernel refuses.
pub fn set_thread_fifo(tid: u32, priority: i32) -> Result<()> {
    thread::set_fifo(tid, priority).with_context(|| format!("SCHED_FIFO for thread {tid}"))
}

/// Runs all current threads of a process at SCHED_FIFO with this priority.
///
/// # Errors
/// If one of the threads has ended, or the kernel refuses.
pub fn set_fifo(pid: u32, priority: i32) -> Result<()> {
    for (tid, comm) in schedstat::threads(pid)? {
        thread::set_fifo(tid, priority).with_context(|| comm)?;
    }
    Ok(())
}
