//! How urgently others' threads run.

use anyhow::{Context, Result};
use vmnoise_workload::thread;

use crate::schedstat;

/// Lets a thread run at SCHED_FIFO with this priority.
///
/// # Errors
/// If it is gone, or the kernel refuses.
pub fn set_thread_fifo(tid: u32, priority: i32) -> Result<()> {
    thread::set_fifo(tid, priority).with_context(|| format!("SCHED_FIFO for thread {tid}"))
}

/// Lets all threads that a process has now run at SCHED_FIFO with this priority.
///
/// # Errors
/// If it is gone, or the kernel refuses.
pub fn set_fifo(pid: u32, priority: i32) -> Result<()> {
    for (tid, comm) in schedstat::threads(pid)? {
        thread::set_fifo(tid, priority).with_context(|| comm)?;
    }
    Ok(())
}
