//! Pins threads to CPUs.

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::schedstat;

/// Pins a thread to this CPU.
///
/// # Errors
/// If the thread has ended, or there is no such CPU.
pub fn pin(tid: u32, cpu: u32) -> Result<()> {
    let thread = Pid::from_raw(tid.cast_signed()).context("no thread")?;
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    sched_setaffinity(Some(thread), &only).with_context(|| format!("pinning {tid} to CPU {cpu}"))
}

/// Pins all current threads of a process to this CPU.
///
/// # Errors
/// If one of the threads has ended, or there is no such CPU.
pub fn pin_all(pid: u32, cpu: u32) -> Result<()> {
    let threads = schedstat::threads(pid)?;
    threads.into_iter().try_for_each(|(tid, _)| pin(tid, cpu))
}

/// Returns the CPUs that the calling thread may run on.
///
/// # Errors
/// If the kernel refuses.
pub fn allowed() -> Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(cpus.map(|cpu| cpu as u32).collect())
}

/// Removes this CPU from the CPUs of the calling thread, and of all threads and processes that the
/// caller starts later. Does nothing if the thread may run on no other CPU.
///
/// # Errors
/// If the kernel refuses.
pub fn leave(cpu: u32) -> Result<()> {
    let mut others = sched_getaffinity(None)?;
    others.unset(cpu as usize);
    if others.count() > 0 {
        sched_setaffinity(None, &others)?;
    }
    Ok(())
}

/// Returns a CPU mask that contains only this CPU, in the format of lib/bitmap.c. Each word stands
/// for 32 CPUs, and the word of the highest CPUs is the first.
pub fn mask(cpu: u32) -> String {
    let first = format!("{:x}", 1_u32 << (cpu % 32));
    (0..cpu / 32).fold(first, |mask, _| mask + ",00000000")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_moved_with_its_threads() {
        let cpu = *allowed().unwrap().last().unwrap();
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        let pinned = pin_all(process.id(), cpu);
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
        process.kill().unwrap();
        process.wait().unwrap();
        pinned.unwrap();
        let expected = format!("\nCpus_allowed_list:\t{cpu}\n");
        assert!(status.unwrap().contains(&expected));
    }

    #[test]
    fn a_cpu_is_a_bit_of_a_word() {
        assert_eq!([0, 3, 31].map(mask), ["1", "8", "80000000"]);
        assert_eq!([32, 65].map(mask), ["1,00000000", "2,00000000,00000000"]);
    }
}
