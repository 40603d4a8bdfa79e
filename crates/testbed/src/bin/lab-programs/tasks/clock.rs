//! Clocks for the log of jobs, in nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};

pub const NS_PER_S: u64 = 1_000_000_000;

/// Returns the time of CLOCK_MONOTONIC in nanoseconds.
pub fn mono_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// Returns the CPU time that the scheduler has charged this thread so far, nanoseconds
/// (CLOCK_THREAD_CPUTIME_ID).
pub fn charged_ns() -> u64 {
    ns(clock_gettime(ClockId::ThreadCPUTime))
}

fn ns(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * NS_PER_S + time.tv_nsec.unsigned_abs()
}
