//! Keeps this program off isolated CPUs.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};
use vmnoise_host::Host;

/// Keeps this thread off isolated CPUs and off CPUs without a tick. Threads that this thread
/// creates are kept off too. If no other CPU is allowed, changes nothing.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn keep_off_isolated(host: &Host) -> Result<()> {
    let isolated = host.isolated_cpus();
    let allowed = host
        .allowed_cpus()
        .context("reading the allowed CPUs (mount /proc)")?;
    let mut others = CpuSet::new();
    for cpu in allowed.iter().filter(|cpu| !isolated.contains(cpu)) {
        others.set(*cpu as usize);
    }
    if !isolated.is_empty() && others.count() > 0 {
        sched_setaffinity(None, &others).context("keeping off isolated CPUs")?;
    }
    Ok(())
}
