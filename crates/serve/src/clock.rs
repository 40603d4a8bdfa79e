//! Clocks in the units that the metrics use.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns CLOCK_MONOTONIC in ns.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(read(ClockId::Monotonic).as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the CPU time that this process has used so far.
pub(crate) fn own_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// Converts ns to seconds, the base unit of Prometheus.
pub(crate) fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
